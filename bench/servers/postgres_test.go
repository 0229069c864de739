package servers

import (
	"context"
	"net"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) {
	code := m.Run()
	End()
	os.Exit(code)
}

func count(t *testing.T, address string) (n int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(ctx) }()
	return n, conn.QueryRow(ctx, "SELECT count(*) FROM kept").Scan(&n)
}

func TestPostgresKeepsCommitsWhenKilled(t *testing.T) {
	t.Parallel()
	p := StartPostgres(t)
	p.Exec(t, "CREATE TABLE kept AS SELECT 1 AS a")
	for _, end := range []func(){p.Kill, p.Stop} {
		end()
		if _, err := count(t, p.URL("postgres")); err == nil {
			t.Fatal("a server that was ended answers")
		}
		p.Start(t)
		if n, err := count(t, p.URL("postgres")); n != 1 || err != nil {
			t.Errorf("%d rows after the restart, %v", n, err)
		}
	}
}

func TestDatabasesAreApart(t *testing.T) {
	t.Parallel()
	a, b := Database(t), Database(t)
	if a == b {
		t.Fatalf("two tests got the same database %s", a)
	}
	conn, err := pgx.Connect(context.Background(), a)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(context.Background(), "CREATE TABLE kept(a INT)"); err != nil {
		t.Fatal(err)
	}
	if _, err := count(t, b); err == nil {
		t.Error("the other database has the table, too")
	}
}

// Each fault of the proxy must really happen, or the tests that use it prove nothing.
func TestProxyFaults(t *testing.T) {
	t.Parallel()
	address := Database(t)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	cut := StartCut(t, u.Host)
	u.Host = cut.Addr
	ctx := context.Background()
	open := func() *pgx.Conn {
		t.Helper()
		conn, err := pgx.Connect(ctx, u.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(ctx) })
		return conn
	}
	conn := open()
	if _, err := conn.Exec(ctx, "CREATE TABLE kept(a INT)"); err != nil {
		t.Fatal(err)
	}
	if n := cut.Cut(); n != 1 {
		t.Errorf("%d connections were cut", n)
	}
	if _, err := conn.Exec(ctx, "INSERT INTO kept VALUES(1)"); err == nil {
		t.Error("a connection that was cut still works")
	}

	conn = open()
	cut.LoseAnswer()
	if _, err := conn.Exec(ctx, "INSERT INTO kept VALUES(1)"); err == nil {
		t.Error("the answer was not lost")
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if n, _ := count(t, address); n == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("only the answer should have been lost")
		}
	}

	conn = open()
	cut.Hole(true)
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := conn.Exec(short, "INSERT INTO kept VALUES(2)"); err == nil ||
		time.Since(began) < 150*time.Millisecond {
		t.Errorf("an answer through a hole: %v after %s", err, time.Since(began))
	}
	cut.Hole(false)

	cut.Refuse(true)
	if c, err := net.DialTimeout("tcp", cut.Addr, time.Second); err == nil {
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a refused connection gives bytes")
		}
		_ = c.Close()
	}
	cut.Refuse(false)

	conn = open()
	cut.Delay(50 * time.Millisecond)
	began = time.Now()
	if err := conn.Ping(ctx); err != nil || time.Since(began) < 90*time.Millisecond {
		t.Errorf("a round trip took %s with 50 ms of delay each way (%v)", time.Since(began), err)
	}
	cut.Delay(0)
	if n, err := count(t, address); n != 1 || err != nil {
		t.Errorf("%d rows in the end, expected 1 (%v)", n, err)
	}
}
