package billing

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"farebox/bench/servers"
	"farebox/billing/store"
)

// "After the update there were reviews, and my balances were other ones." The ledger was
// made by farebox of schema 5 under some chats, embeddings and pictures, and left as a
// kill -9 leaves it, the last charge in the journal alone. Beside it are that farebox's
// reports of a copy, and its backup of the copy.
func TestLedgerOfSchema5ComesForward(t *testing.T) {
	servers.NoRace(t)
	for how, prepare := range map[string]func(t *testing.T, dir string) Options{
		"in its place": func(_ *testing.T, dir string) Options { return Options{Dir: dir} },
		"by its backup": func(t *testing.T, dir string) Options {
			return restored(t, dir, Options{Dir: t.TempDir()})
		},
		"by its backup into PostgreSQL": func(t *testing.T, dir string) Options {
			return restored(t, dir, Options{Dir: t.TempDir(), Shared: servers.Database(t)})
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := unpack(t, "ledger-schema5.tar.gz")
			var told struct {
				Accounts []AccountInfo
				Verify   store.Report
				Keys     []KeyInfo
			}
			raw, err := os.ReadFile(filepath.Join(dir, "told"))
			if err == nil {
				spelled := strings.NewReplacer("createdAt", "created_at", "diemDaily", "diem_daily", "statusAt", "status_at", "openHolds", "open_holds")
				err = json.Unmarshal([]byte(spelled.Replace(string(raw))), &told)
			}
			secret, bad := os.ReadFile(filepath.Join(dir, "secrets"))
			if err != nil || bad != nil || len(told.Accounts) != 2 {
				t.Fatalf("%v %v %+v", err, bad, told)
			}
			f := openLedger(t, func(o *Options) {
				clock := o.Clock
				*o = prepare(t, dir)
				if o.Brand = "svc"; o.Shared == "" {
					o.Clock = clock
				}
			})
			for range 2 {
				accounts, err := f.ListAccounts()
				if err != nil || !reflect.DeepEqual(accounts, told.Accounts) {
					t.Errorf("the accounts are\n%+v\nand were\n%+v (%v)", accounts, told.Accounts, err)
				}
				if r := f.recount(); r.Charged != told.Verify.Charged || r.Requests != told.Verify.Requests ||
					r.Charged == 0 {
					t.Errorf("recounted %+v, and it was %+v", r, told.Verify)
				}
				f.find(strings.TrimSpace(string(secret)))
				f.reopen()
			}
			if _, err := f.AddReview(NewReview{Slug: "ada", Rating: 5, Account: "demo"}); err != nil {
				t.Error(err)
			}
			f.Characters().ServeCharacters()
			if sum := f.Characters().CharacterStats().Of("ada"); sum.Ratings != 1 || sum.RatingSum != 5 {
				t.Errorf("the reviews come to %+v", sum)
			}
		})
	}
}
