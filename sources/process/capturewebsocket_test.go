package process

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // RFC 6455 names it
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// debugger is a server that shakes hands and then does as the test says.
func debugger(t *testing.T, talk func(net.Conn, *bufio.Reader)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		in := bufio.NewReader(conn)
		request, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		sum := sha1.Sum([]byte(request.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // see the import
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
			base64.StdEncoding.EncodeToString(sum[:]))
		talk(conn, in)
	}()
	return listener.Addr().String()
}

// frame is a server's frame.
func frame(head byte, payload string) []byte {
	out := []byte{head}
	switch n := len(payload); {
	case n < 126:
		out = append(out, byte(n))
	case n <= 0xFFFF:
		out = binary.BigEndian.AppendUint16(append(out, 126), uint16(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 127), uint64(n))
	}
	return append(out, payload...)
}

// readClient reads one masked frame of a client.
func readClient(in io.Reader) (op byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, err
	}
	size := int(head[1] & 0x7F)
	if size == 126 {
		var wide [2]byte
		_, _ = io.ReadFull(in, wide[:])
		size = int(binary.BigEndian.Uint16(wide[:]))
	}
	if head[1]&0x80 == 0 {
		return 0, nil, errors.New("a client's frame without its mask")
	}
	var mask [4]byte
	_, _ = io.ReadFull(in, mask[:])
	payload = make([]byte, size)
	_, err = io.ReadFull(in, payload)
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	return head[0] & 0x0F, payload, err
}

func TestWebSocketMessages(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	pong := make(chan string, 1)
	address := debugger(t, func(c net.Conn, in *bufio.Reader) {
		_, _ = c.Write(frame(0x81, "one"))
		_, _ = c.Write(frame(0x01, "tw"))
		_, _ = c.Write(frame(0x89, "ping"))
		_, _ = c.Write(frame(0x00, "o, in "))
		_, _ = c.Write(frame(0x80, "parts"))
		_, _ = c.Write(frame(0x8A, "unasked"))
		_, _ = c.Write(frame(0x81, long[:200]))
		_, _ = c.Write(frame(0x81, long))
		op, payload, _ := readClient(in)
		pong <- fmt.Sprint(op, string(payload))
		op, payload, _ = readClient(in)
		pong <- fmt.Sprint(op, len(payload))
		_, _ = c.Write(frame(0x88, ""))
	})
	w, err := dialWebSocket(t.Context(), address, "/id")
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for _, want := range []string{"one", "two, in parts", long[:200], long} {
		if got, err := w.readMessage(); err != nil || string(got) != want {
			t.Fatalf("%.20q, %v; want %.20q", got, err, want)
		}
	}
	if got := <-pong; got != "10ping" {
		t.Errorf("the answer to a ping is %q", got)
	}
	if err := w.writeText([]byte(long[:300])); err != nil {
		t.Error(err)
	}
	if got := <-pong; got != "1300" && got != "1 300" {
		t.Errorf("a message came as %q", got)
	}
	if _, err := w.readMessage(); err != io.EOF {
		t.Errorf("a close is %v, want EOF", err)
	}
}

func TestWebSocketRefuses(t *testing.T) {
	for name, raw := range map[string][]byte{
		"reserved bits":           frame(0xC1, "x"),
		"a masked frame":          {0x81, 0x81, 0, 0, 0, 0, 'x'},
		"a long control frame":    frame(0x89, strings.Repeat("x", 126)),
		"a control frame in two":  frame(0x09, "x"),
		"an unknown kind":         frame(0x83, "x"),
		"a second beginning":      append(frame(0x01, "x"), frame(0x81, "y")...),
		"an end with no start":    frame(0x80, "x"),
		"a message beyond limits": {0x81, 127, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
		"half a frame":            frame(0x81, "xyz")[:3],
	} {
		t.Run(name, func(t *testing.T) {
			address := debugger(t, func(c net.Conn, _ *bufio.Reader) { _, _ = c.Write(raw) })
			w, err := dialWebSocket(t.Context(), address, "/")
			if err != nil {
				t.Fatal(err)
			}
			defer w.close()
			if got, err := w.readMessage(); err == nil || err == io.EOF {
				t.Errorf("%q was taken, %v", got, err)
			}
		})
	}
	plain := debugger(t, func(c net.Conn, _ *bufio.Reader) {})
	if w, err := dialWebSocket(t.Context(), plain, " /\r\nX"); err == nil {
		w.close()
		t.Error("a path that is none was taken")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	mute := debugger(t, func(_ net.Conn, in *bufio.Reader) { _, _ = in.ReadByte() })
	w, err := dialWebSocket(ctx, mute, "/")
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if _, err := w.readMessage(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a mute server: %v", err)
	}
}

func FuzzWebSocketFrame(f *testing.F) {
	f.Add(frame(0x81, "x"))
	f.Add(append(frame(0x01, "x"), frame(0x80, "y")...))
	f.Add([]byte{0x81, 127, 0, 0, 0, 0, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		w := &webSocket{in: bufio.NewReader(bytes.NewReader(raw))}
		for {
			final, op, payload, err := w.readFrame(1 << 10)
			if err != nil {
				return
			}
			if len(payload) > 1<<10 || op >= opClose && !final {
				t.Errorf("kind %d with %d bytes", op, len(payload))
			}
		}
	})
}

// TestPauseScript: the frames come with their files and lines, and the script
// goes on before anything else.
func TestPauseScript(t *testing.T) {
	var asked []string
	done := make(chan struct{})
	address := debugger(t, func(c net.Conn, in *bufio.Reader) {
		defer close(done)
		for {
			_, payload, err := readClient(in)
			var q struct {
				ID     int    `json:"id"`
				Method string `json:"method"`
			}
			if err != nil || json.Unmarshal(payload, &q) != nil || q.Method == "" {
				return
			}
			asked = append(asked, q.Method)
			switch q.Method {
			case "Debugger.enable":
				_, _ = c.Write(frame(0x81, `{"method":"Debugger.scriptParsed","params":{"scriptId":"7","url":"file:///srv/\u001bagent.js"}}`))
				_, _ = c.Write(frame(0x81, `not json`))
			case "Debugger.pause":
				_, _ = c.Write(frame(0x81, `{"method":"Debugger.paused","params":{"callFrames":[{"functionName":"scan","location":{"scriptId":"7","lineNumber":8,"columnNumber":2}}],"asyncStackTrace":{"description":"await"}}}`))
			}
			_, _ = c.Write(frame(0x81, fmt.Sprintf(`{"id":%d,"result":{}}`, q.ID)))
		}
	})
	text, err := pauseScript(t.Context(), address, "/id")
	if err != nil {
		t.Fatal(err)
	}
	<-done
	var got pausedScript
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Frames) != 1 || got.Frames[0] != (pausedFrame{"scan", "file:///srv/\x1bagent.js", 9, 3}) || got.Async == nil || *got.Async != "await" {
		t.Errorf("%s", text)
	}
	if want := "Debugger.enable Debugger.pause Debugger.resume Debugger.disable"; strings.Join(asked, " ") != want {
		t.Errorf("asked %v, want %s", asked, want)
	}
}

func TestPauseScriptThatDoesNotRun(t *testing.T) {
	address := debugger(t, func(_ net.Conn, in *bufio.Reader) {
		for {
			if _, _, err := readClient(in); err != nil {
				return
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if text, err := pauseScript(ctx, address, "/id"); err == nil || !strings.Contains(err.Error(), "its loop is idle") {
		t.Errorf("%s, %v", text, err)
	}
}

func TestScriptPath(t *testing.T) {
	for list, want := range map[string]string{
		`[{"type":"node","webSocketDebuggerUrl":"ws://127.0.0.1:9229/ab-1"}]`:                                          "/ab-1",
		`[{"type":"page","webSocketDebuggerUrl":"ws://h/x"},{"type":"node","webSocketDebuggerUrl":"ws://evil:1/y z"}]`: "/y%20z",
		`[{"type":"node","webSocketDebuggerUrl":"::"}]`:                                                                "", `{}`: "", `[]`: "", `<html>`: "", `[{"type":"node"}]`: "",
	} {
		if got := scriptPath([]byte(list)); got != want {
			t.Errorf("%s: %q, want %q", list, got, want)
		}
	}
}
