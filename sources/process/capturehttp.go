package process

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sessionwatch/sessionwatch/internal/netreason"
	"github.com/sessionwatch/sessionwatch/internal/termtext"
)

// httpRung asks the address of the settings.
func (c *capturing) httpRung(url string) rung {
	return rung{
		method: "http", grade: gradeRuntime,
		skip: func() string { return "" },
		take: func(ctx context.Context, limit int64) (taking, error) {
			got, err := fetch(ctx, url, limit, 0)
			if err == nil && len(bytes.TrimSpace(got.text)) == 0 {
				err = fmt.Errorf("%s answered with nothing", termtext.RedactURL(url))
			}
			return got, err
		},
	}
}

// fetch reads an address directly, past any proxy: it is a program's own. An
// answer must begin within patience; 0: any time will do.
func fetch(ctx context.Context, url string, limit int64, patience time.Duration) (taking, error) {
	shown := termtext.RedactURL(url)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return taking{}, fmt.Errorf("%s cannot be asked: it is no address", shown)
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: patience},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return taking{}, fmt.Errorf("%s did not answer: %s", shown, firstOf(netreason.Network(err), netreason.TLS(err), termtext.RedactURL(err.Error())))
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return taking{}, fmt.Errorf("%s answered %s", shown, response.Status)
	}
	out := &clipWriter{limit: limit}
	_, err = io.Copy(out, response.Body)
	var got taking
	got.text, got.cut = out.text()
	if err != nil {
		if len(got.text) == 0 {
			return taking{}, fmt.Errorf("%s broke off: %s", shown, firstOf(netreason.Network(err), err.Error()))
		}
		got.cut, got.note = true, "the answer broke off: "+firstOf(netreason.Network(err), err.Error())
	}
	return got, nil
}

// pprofHandler is the name that a Go program carries if it can serve its stacks.
const pprofHandler = "net/http/pprof.Index"

// pprofRung asks a Go program by its own pprof address, if it has one: it is
// looked for among the ports that the program itself listens on, and only if the
// handler is built into it.
func (c *capturing) pprofRung() rung {
	return rung{
		method: "pprof", grade: gradeRuntime,
		skip: func() string {
			if c.target.stopped() {
				return "it is stopped: it would not answer"
			}
			if linked, err := fileContains(fmt.Sprintf("/proc/%d/exe", c.target.pid), pprofHandler); err != nil || !linked {
				return "it has no pprof address: net/http/pprof is not built into it"
			}
			return ""
		},
		take: func(ctx context.Context, limit int64) (taking, error) {
			addresses, err := listeners(c.target.pid)
			if err != nil {
				return taking{}, err
			}
			if len(addresses) == 0 {
				return taking{}, errors.New("it has no pprof address: it listens on no port")
			}
			address, got, err := firstAnswer(ctx, addresses, "/debug/pprof/goroutine?debug=2", limit, func(text []byte) bool {
				return bytes.HasPrefix(text, []byte("goroutine "))
			})
			if err == nil {
				got.note = joined("asked "+address, got.note)
			}
			return got, err
		},
	}
}

// firstAnswer asks several addresses for one path at once, for a port that takes
// connections may never answer, and gives the first answer that is the right
// one.
func firstAnswer(ctx context.Context, addresses []string, path string, limit int64, right func([]byte) bool) (address string, got taking, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		address string
		got     taking
		err     error
	}
	addresses = addresses[:min(len(addresses), mostAsked)]
	answers := make(chan answer, len(addresses))
	for _, address := range addresses {
		go func() {
			got, err := fetch(ctx, "http://"+address+path, limit, guessPatience)
			if err == nil && !right(got.text) {
				err = fmt.Errorf("http://%s%s answered something else", address, path)
			}
			answers <- answer{address, got, err}
		}()
	}
	err = errors.New("there is no address to ask")
	for range addresses {
		a := <-answers
		if a.err == nil {
			return a.address, a.got, nil
		}
		err = a.err
	}
	return "", taking{}, err
}

// Bounds of asking at ports of which it is not known what they serve.
const (
	mostAsked     = 8               // of one process
	guessPatience = 2 * time.Second // the stacks of a hundred thousand goroutines take less
)

// fileContains searches a file for a text.
func fileContains(path, text string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	buf := make([]byte, 256<<10)
	kept := 0
	for {
		n, err := f.Read(buf[kept:])
		if bytes.Contains(buf[:kept+n], []byte(text)) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		have := kept + n
		kept = min(have, len(text)-1)
		copy(buf, buf[have-kept:have])
	}
}

// listeners gives the TCP addresses that a process listens on and that we can
// reach, those of the loopback interface first.
func listeners(pid int) ([]string, error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	theirs, err := os.Readlink(dir + "/ns/net")
	if err != nil {
		return nil, fmt.Errorf("its ports cannot be read: %w", err)
	}
	if ours, err := os.Readlink("/proc/self/ns/net"); err != nil || ours != theirs {
		return nil, errors.New("it has a network of its own, in which its ports cannot be reached")
	}
	sockets, err := socketsOf(dir + "/fd")
	if err != nil {
		return nil, fmt.Errorf("its ports cannot be read: %w", err)
	}
	var found []net.TCPAddr
	for _, table := range []string{"/net/tcp", "/net/tcp6"} {
		text, err := readStart(dir+table, 16<<20)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			if address, inode, ok := parseListener(line); ok && sockets[inode] {
				found = append(found, address)
			}
		}
	}
	loopbackFirst := func(a, b net.TCPAddr) int {
		if x, y := a.IP.IsLoopback(), b.IP.IsLoopback(); x != y {
			if x {
				return -1
			}
			return 1
		}
		return a.Port - b.Port
	}
	slices.SortStableFunc(found, loopbackFirst)
	var addresses []string
	for _, a := range found {
		switch {
		case a.IP.IsUnspecified() && a.IP.To4() != nil:
			a.IP = net.IPv4(127, 0, 0, 1)
		case a.IP.IsUnspecified():
			a.IP = net.IPv6loopback
		}
		if text := a.String(); !slices.Contains(addresses, text) {
			addresses = append(addresses, text)
		}
	}
	return addresses, nil
}

// socketsOf gives the inodes of the sockets that a process has open.
func socketsOf(fds string) (map[string]bool, error) {
	entries, err := os.ReadDir(fds)
	if err != nil {
		return nil, err
	}
	sockets := make(map[string]bool)
	for _, e := range entries {
		link, err := os.Readlink(fds + "/" + e.Name())
		if err != nil {
			continue
		}
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			sockets[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return sockets, nil
}

// parseListener reads a line of /proc/net/tcp or tcp6; ok if it is of a socket
// that listens. Addresses are hexadecimal, in words of the machine's own order.
func parseListener(line string) (address net.TCPAddr, inode string, ok bool) {
	f := strings.Fields(line)
	if len(f) < 10 || f[3] != "0A" {
		return address, "", false
	}
	host, port, found := strings.Cut(f[1], ":")
	if !found {
		return address, "", false
	}
	if n, err := fmt.Sscanf(port, "%X", &address.Port); n != 1 || err != nil {
		return address, "", false
	}
	raw, err := hex.DecodeString(host)
	if err != nil || len(raw) != net.IPv4len && len(raw) != net.IPv6len {
		return address, "", false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	address.IP = raw
	return address, f[9], true
}
