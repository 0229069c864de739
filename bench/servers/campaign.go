package servers

import (
	"os"
	"strconv"
)

// Campaign is how many rounds, requests or kills a random test has: the usual number, times
// $FAREBOX_CAMPAIGN where that is set, and at least one.
func Campaign(usual int) int {
	if times, err := strconv.ParseFloat(os.Getenv("FAREBOX_CAMPAIGN"), 64); err == nil && times > 0 && times <= 1000 {
		return max(1, int(float64(usual)*times))
	}
	return usual
}
