package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/sessionwatch/sessionwatch/internal/spelling"
	"github.com/sessionwatch/sessionwatch/watchdog"
)

// nearLimit is how many similar names are offered.
const nearLimit = 3

// nearest lists the ids that somebody who typed id may have meant, the most
// similar first: those that contain it, and those within a few typing errors.
func nearest(id string, rows []watchdog.Row) []string {
	type candidate struct {
		id       string
		distance int
	}
	var found []candidate
	limit := 1 + len(id)/4
	for _, r := range rows {
		other := string(r.ID)
		d := limit + 1
		switch {
		case id != "" && strings.Contains(strings.ToLower(other), strings.ToLower(id)):
			d = 0
		case abs(len(other)-len(id)) <= limit:
			d = spelling.Distance(id, other)
		}
		if d <= limit {
			found = append(found, candidate{other, d})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(len(a.id), len(b.id)), cmp.Compare(a.id, b.id))
	})
	var out []string
	for _, c := range found[:min(len(found), nearLimit)] {
		out = append(out, c.id)
	}
	return out
}

func abs(n int) int { return max(n, -n) }

// joinOr writes names as a choice: a, b or c.
func joinOr(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return fmt.Sprintf("%s or %s", strings.Join(names[:last], ", "), names[last])
}
