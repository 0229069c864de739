package compare

// startRelay starts the bare relay twice: with whole answers for JSON, and
// with streamed ones, which cost it more.
func startRelay(l *lab) (*gateway, error) {
	g := &gateway{name: "relay"}
	for _, stream := range []bool{false, true} {
		addr, err := freeAddress()
		if err != nil {
			return nil, err
		}
		name, argv := "relay", []string{l.exe, "bench", "relay", "--listen", addr, "--upstream",
			"http://" + l.upstreamAddr}
		if stream {
			name, argv = "relay-stream", append(argv, "--stream")
		}
		p, err := spawn(name, l.dir, l.gatewayCPU, []string{"GOMAXPROCS=1"}, argv...)
		if err != nil {
			return nil, err
		}
		g.processes = append(g.processes, p)
		if err := p.ready(addr); err != nil {
			return g, err
		}
		if stream {
			g.streamURL = "http://" + addr + "/v1"
		} else {
			g.url = "http://" + addr + "/v1"
		}
	}
	return g, nil
}
