package httpregistry

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/sessionwatch/sessionwatch/watchdog"
)

// minToken is the least length of the fleet's token.
const minToken = 16

// tokens knows who may speak. The fleet's token may do everything; the token of
// a generation, which POST /sessions gives out, may send the heartbeats of that
// generation alone. It is derived from the fleet's, so that every serve with the
// same token_file knows it and none is stored.
type tokens struct{ secret []byte }

// grant is what a bearer token allows.
type grant struct {
	fleet      bool
	generation watchdog.Generation // of a generation's own token
	mac        string
}

// of gives the token of one generation: its number and a keyed digest.
func (t tokens) of(id watchdog.ID, g watchdog.Generation) string {
	number := strconv.FormatUint(uint64(g), 10)
	h := hmac.New(sha256.New, t.secret)
	h.Write([]byte("sessionwatch generation\x00" + string(id) + "\x00" + number))
	return "g" + number + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// read takes the value of an Authorization header. A generation's token can be
// checked only once the session is known: see covers.
func (t tokens) read(header string) (grant, bool) {
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return grant{}, false
	}
	if same(token, string(t.secret)) {
		return grant{fleet: true}, true
	}
	number, _, ok := strings.Cut(token, ".")
	if !ok || !strings.HasPrefix(number, "g") {
		return grant{}, false
	}
	g, err := strconv.ParseUint(number[1:], 10, 32)
	if err != nil || g == 0 {
		return grant{}, false
	}
	return grant{generation: watchdog.Generation(g), mac: token}, true
}

// covers reports whether a grant may speak for a session.
func (t tokens) covers(a grant, id watchdog.ID) bool {
	return a.fleet || same(a.mac, t.of(id, a.generation))
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Token is what the heartbeats of one generation may be sent with.
func (r *Registry) Token(id watchdog.ID, g watchdog.Generation) string { return r.tokens.of(id, g) }
