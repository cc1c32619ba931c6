package process

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // the handshake of RFC 6455 names it; nothing rests on it
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// webSocket is the client's side of RFC 6455, as much as a debugger on this
// machine needs of it: text messages both ways, no extensions. It is for one
// goroutine.
type webSocket struct {
	conn net.Conn
	in   *bufio.Reader
	free func() bool // ends the watch over the context
}

// Operation codes of frames, and the longest message that is taken.
const (
	opContinue = 0x0
	opText     = 0x1
	opBinary   = 0x2
	opClose    = 0x8
	opPing     = 0x9
	opPong     = 0xA

	maxMessage = 32 << 20
)

// dialWebSocket opens a connection to path on a TCP address. Its reads and
// writes fail with os.ErrDeadlineExceeded when ctx ends.
func dialWebSocket(ctx context.Context, address, path string) (*webSocket, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s does not take connections: %w", address, err)
	}
	w := &webSocket{conn: conn, in: bufio.NewReader(conn)}
	w.free = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	if err := w.shakeHands(address, path); err != nil {
		w.free()
		_ = conn.Close()
		return nil, err
	}
	return w, nil
}

func (w *webSocket) shakeHands(address, path string) error {
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // never fails
	key := base64.StdEncoding.EncodeToString(nonce)
	_, err := fmt.Fprintf(w.conn, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n\r\n", path, address, key)
	if err != nil {
		return fmt.Errorf("%s broke off: %w", address, err)
	}
	response, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return fmt.Errorf("%s speaks no HTTP: %w", address, err)
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // see the import
	if response.StatusCode != http.StatusSwitchingProtocols ||
		!strings.EqualFold(response.Header.Get("Upgrade"), "websocket") ||
		response.Header.Get("Sec-WebSocket-Accept") != base64.StdEncoding.EncodeToString(sum[:]) {
		return fmt.Errorf("%s opens no WebSocket: it answered %s", address, response.Status)
	}
	return nil
}

// close says good-bye if that takes no time.
func (w *webSocket) close() {
	w.free()
	_ = w.conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
	_ = w.writeFrame(opClose, []byte{0x03, 0xE8}) // 1000: done
	_ = w.conn.Close()
}

// writeText sends one message.
func (w *webSocket) writeText(message []byte) error { return w.writeFrame(opText, message) }

// writeFrame sends a whole message in one frame, masked as a client must.
func (w *webSocket) writeFrame(op byte, payload []byte) error {
	frame := []byte{0x80 | op}
	switch n := len(payload); {
	case n < 126:
		frame = append(frame, 0x80|byte(n))
	case n <= 0xFFFF:
		frame = binary.BigEndian.AppendUint16(append(frame, 0x80|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, 0x80|127), uint64(n))
	}
	var mask [4]byte
	_, _ = rand.Read(mask[:])
	frame = append(frame, mask[:]...)
	for i, b := range payload {
		frame = append(frame, b^mask[i%4])
	}
	_, err := w.conn.Write(frame)
	return err
}

// readMessage gives the next message, answers pings on the way, and ends with
// io.EOF when the other side closes.
func (w *webSocket) readMessage() ([]byte, error) {
	var message []byte
	begun := false
	for {
		final, op, payload, err := w.readFrame(maxMessage - len(message))
		if err != nil {
			return nil, err
		}
		switch op {
		case opPing:
			if err := w.writeFrame(opPong, payload); err != nil {
				return nil, err
			}
			continue
		case opPong:
			continue
		case opClose:
			return nil, io.EOF
		case opText, opBinary:
			if begun {
				return nil, errors.New("a message began within another")
			}
			begun = true
		case opContinue:
			if !begun {
				return nil, errors.New("a message went on that had not begun")
			}
		default:
			return nil, fmt.Errorf("a frame of the unknown kind %#x", op)
		}
		if message = append(message, payload...); final {
			return message, nil
		}
	}
}

// readFrame reads one frame with at most limit bytes.
func (w *webSocket) readFrame(limit int) (final bool, op byte, payload []byte, err error) {
	var head [2]byte
	if _, err = io.ReadFull(w.in, head[:]); err != nil {
		return false, 0, nil, err
	}
	final, op = head[0]&0x80 != 0, head[0]&0x0F
	if head[0]&0x70 != 0 || head[1]&0x80 != 0 {
		return false, 0, nil, errors.New("a frame that no server may send")
	}
	size := uint64(head[1] & 0x7F)
	if wide := map[uint64]int{126: 2, 127: 8}[size]; wide > 0 {
		var length [8]byte
		if _, err = io.ReadFull(w.in, length[8-wide:]); err != nil {
			return false, 0, nil, err
		}
		size = binary.BigEndian.Uint64(length[:])
	}
	if op >= opClose && (size > 125 || !final) {
		return false, 0, nil, errors.New("a control frame that is too long")
	}
	if size > uint64(max(0, limit)) {
		return false, 0, nil, errors.New("a message that is too long")
	}
	payload = make([]byte, size)
	_, err = io.ReadFull(w.in, payload)
	return final, op, payload, err
}
