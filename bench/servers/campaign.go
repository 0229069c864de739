package servers

import (
	"os"
	"strconv"
)

// Campaign is how many rounds, requests or kills a random test has: the usual number, times
// $FAREBOX_CAMPAIGN where that is set.
func Campaign(usual int) int {
	if times, err := strconv.Atoi(os.Getenv("FAREBOX_CAMPAIGN")); err == nil && times > 0 {
		return usual * times
	}
	return usual
}
