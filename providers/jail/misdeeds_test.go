package jail

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

var kept [][]byte

// misdeeds are jobs as a parser would do them that was taken over.
func misdeeds() Jobs {
	said := func(err error) ([]byte, error) {
		if err == nil {
			return []byte("it worked"), nil
		}
		return nil, &Refusal{"refused", err.Error()}
	}
	return Jobs{
		"echo":   func(in []byte, _ string) ([]byte, error) { return in, nil },
		"word":   func(_ []byte, word string) ([]byte, error) { return []byte(word), nil },
		"refuse": func(in []byte, word string) ([]byte, error) { return nil, &Refusal{word, string(in)} },
		"fail":   func([]byte, string) ([]byte, error) { return nil, errors.New("it did not work") },
		"panic":  func([]byte, string) ([]byte, error) { panic("secret bytes of a document") },
		"index": func(in []byte, _ string) ([]byte, error) {
			return in[len(in)+len(os.Args) : len(in)+7], nil
		},
		"astray": func(in []byte, _ string) ([]byte, error) { // this panic is not recovered
			go func() { panic("this is no font: " + string(in)) }()
			select {}
		},
		"forged log": func(in []byte, _ string) ([]byte, error) {
			fmt.Fprintf(os.Stderr, "%s\n{\"level\":\"info\",\"message\":\"forged\"}\n", in)
			os.Exit(3)
			return nil, nil
		},
		"forged panic": func(in []byte, _ string) ([]byte, error) {
			_ = writeReply(stdout, panicked, "", append([]byte("panic: "), in...))
			select {}
		},
		"send": func(in []byte, word string) ([]byte, error) {
			for range len(in) {
				if err := Send(in[:1]); err != nil {
					return nil, err
				}
			}
			switch word {
			case "panic":
				panic("it went well so far")
			case "exit":
				os.Exit(1)
			case "loop":
				time.Sleep(time.Hour)
			case "refuse":
				return nil, &Refusal{"refused", "no more"}
			}
			return []byte("end"), nil
		},
		"exit":     func([]byte, string) ([]byte, error) { os.Exit(0); return nil, nil },
		"goexit":   func([]byte, string) ([]byte, error) { runtime.Goexit(); return nil, nil },
		"overflow": func([]byte, string) ([]byte, error) { return []byte{byte(deep(1))}, nil },
		"garbage": func([]byte, string) ([]byte, error) {
			_, _ = stdout.Write([]byte(strings.Repeat("\xff", 100)))
			return nil, nil
		},
		"silence": func([]byte, string) ([]byte, error) { _ = syscall.Close(1); return nil, nil },
		"forged": func([]byte, string) ([]byte, error) {
			_, _ = stdout.Write([]byte{byte(done), 0, 0xff, 0xff, 0xff, 0xff})
			select {}
		},
		"loop": func([]byte, string) ([]byte, error) {
			for n := 0; ; n++ {
				runtime.KeepAlive(n)
			}
		},
		"nap": func(_ []byte, word string) ([]byte, error) {
			d, err := time.ParseDuration(word)
			time.Sleep(d)
			return nil, err
		},
		"sleep": func([]byte, string) ([]byte, error) { time.Sleep(time.Hour); return nil, nil },
		"bomb": func([]byte, string) ([]byte, error) {
			for {
				b := make([]byte, 8<<20)
				for i := 0; i < len(b); i += 4096 {
					b[i] = 1
				}
				kept = append(kept, b)
			}
		},
		"mapbomb": func([]byte, string) ([]byte, error) {
			m := map[int][]byte{}
			for i := 0; ; i++ {
				m[i] = make([]byte, 100)
			}
		},
		"socket": func([]byte, string) ([]byte, error) {
			_, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
			return said(err)
		},
		"dial": func(_ []byte, word string) ([]byte, error) {
			_, err := net.DialTimeout("tcp", word, time.Second)
			return said(err)
		},
		"open": func(_ []byte, word string) ([]byte, error) {
			_, err := os.ReadFile(word)
			return said(err)
		},
		"create": func(_ []byte, word string) ([]byte, error) { return said(os.WriteFile(word, []byte("x"), 0o600)) },
		"exec":   func([]byte, string) ([]byte, error) { return said(exec.Command("/bin/true").Run()) },
		"become": func([]byte, string) ([]byte, error) { return said(syscall.Exec("/bin/true", nil, nil)) },
		"kill":   killParent,
		"pid": func([]byte, string) ([]byte, error) {
			return []byte{byte(os.Getpid()), byte(os.Getpid() >> 8), byte(os.Getpid() >> 16)}, nil
		},
		"environ": func([]byte, string) ([]byte, error) {
			return []byte(strings.Join(os.Environ(), "\n")), nil
		},
		"grow": func([]byte, string) ([]byte, error) {
			kept = append(kept, make([]byte, 40<<20))
			for i := range kept[len(kept)-1] {
				kept[len(kept)-1][i] = 1
			}
			return nil, nil
		},
		"breathe": func([]byte, string) ([]byte, error) {
			b := make([]byte, 80<<20)
			for i := range b {
				b[i] = 1
			}
			return b[:1], nil
		},
		"rawcall": rawCall,
	}
}

//go:noinline
func deep(n int) int {
	if n < 0 { // never
		return 0
	}
	return deep(n+1) + n
}
