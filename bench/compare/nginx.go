package compare

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// nginxConf is a plain reverse proxy with an operator's usual settings for model traffic:
// kept connections on both sides, answers passed on unbuffered, no access log. Request
// bodies up to the last argument stay in memory, larger ones go through a file, which is
// how nginx is usually run.
const nginxConf = `daemon off;
worker_processes 1;
worker_rlimit_nofile 65536;
pid %[1]s/nginx.pid;
error_log %[1]s/nginx-error.log crit;
events { worker_connections 32768; }
http {
  access_log off;
  client_body_temp_path %[1]s/body;
  proxy_temp_path %[1]s/proxy;
  fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi;
  scgi_temp_path %[1]s/scgi;
  client_max_body_size 64m;
  client_body_buffer_size %[4]s;
  keepalive_timeout 75s;
  keepalive_requests 1000000000;
  upstream simulated {
    server %[2]s;
    keepalive 8192;
    keepalive_requests 1000000000;
  }
  server {
    listen %[3]s backlog=4096;
    location / {
      proxy_pass http://simulated;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 600s;
    }
  }
}
`

func findNginx() (string, error) {
	if path, err := exec.LookPath("nginx"); err == nil {
		return path, nil
	}
	const usual = "/usr/sbin/nginx"
	if _, err := os.Stat(usual); err == nil {
		return usual, nil
	}
	return "", errors.New("cannot find nginx, the anchor of the comparison: run `make bench`, which installs it, or " +
		"`apt-get install nginx-light`")
}

func nginxVersion() string {
	path, err := findNginx()
	if err != nil {
		return ""
	}
	out, err := exec.Command(path, "-v").CombinedOutput()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.TrimPrefix(string(out), "nginx version: "))
}

// nginxBody is the usual choice for API traffic; nginx-2m keeps even the
// largest measured body in memory, at the price of 2 MB a connection.
const (
	nginxBody    = "64k"
	nginxBodyAll = "2m"
)

func startNginx(l *lab) (*gateway, error)    { return nginxWith(l, "nginx", nginxBody) }
func startNginxAll(l *lab) (*gateway, error) { return nginxWith(l, bodyContender, nginxBodyAll) }

func nginxWith(l *lab, name, body string) (*gateway, error) {
	path, err := findNginx()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(l.dir, "nginx")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the worker runs as another user
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, dir, l.upstreamAddr, addr, body), 0o644); err != nil {
		return nil, err
	}
	p, err := spawn(name, dir, l.gatewayCPU, nil, path, "-p", dir, "-c", conf)
	if err != nil {
		return nil, err
	}
	g := &gateway{name: name, url: "http://" + addr + "/v1", processes: []*process{p}}
	return g, p.ready(addr)
}
