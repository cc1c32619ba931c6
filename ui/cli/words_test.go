package cli

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// A hostile balance must not push the columns behind it off every line.
func TestCreditsStayShort(t *testing.T) {
	for c, want := range map[float64]string{8.43: "8.43", -0.25: "-0.25", 1e308: "1e+308", -math.MaxFloat64: "-1.79769e+308", 123456789012345: "123456789012345.00"} {
		if got := credits(c); got != want {
			t.Errorf("%v is written %q, want %q", c, got, want)
		}
	}
	if got := credits(math.NaN()); got != none {
		t.Errorf("no balance is written %q", got)
	}
}

func TestBareDurationsAreToldTheirUnit(t *testing.T) {
	_, err := time.ParseDuration("300")
	err = withUnit(fmt.Errorf("invalid argument %q for %q flag: %w", "300", "--stall", err))
	if !strings.HasSuffix(err.Error(), "; write 300s for seconds") {
		t.Errorf("it says %v", err)
	}
	if other := errors.New("unknown flag: --stal"); withUnit(other) != other {
		t.Error("another complaint was changed")
	}
}
