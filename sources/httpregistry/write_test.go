package httpregistry

import (
	"net/http/httptest"
	"testing"
)

// An answer is read in a terminal.
func TestAnswersAreWrittenForPeople(t *testing.T) {
	w := httptest.NewRecorder()
	write(w, map[string]string{"error": "send Authorization: Bearer <token> & no more"})
	if got, want := w.Body.String(), `{"error":"send Authorization: Bearer <token> & no more"}`+"\n"; got != want {
		t.Errorf("wrote %s, want %s", got, want)
	}
}
