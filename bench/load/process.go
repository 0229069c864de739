package load

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Usage is the resource usage of the watched processes in the measured time.
type Usage struct {
	PIDs         []int   `json:"pids"`
	CPUSeconds   float64 `json:"cpu_seconds"`
	CPUShare     float64 `json:"cpu_share"`            // of one core
	PerThousand  float64 `json:"cpu_seconds_per_1000"` // requests
	PerRequestUs float64 `json:"cpu_us_per_request"`   // 0 without requests
	PerEventUs   float64 `json:"cpu_us_per_event"`     // 0 without events
	RSSBytes     int64   `json:"rss_bytes"`            // at the end
	RSSStart     int64   `json:"rss_bytes_start"`      //
	PeakBytes    int64   `json:"rss_peak_bytes"`       // since the process started
	// of the machine, by processes that are neither watched nor ours
	OtherShare  float64 `json:"other_cpu_share"`
	MachineCPUs int     `json:"machine_cpus,omitempty"` //
}

// Processes is a reading of /proc that Stop completes.
type Processes struct {
	pids    []int
	started time.Time
	cpu     float64
	rss     int64
	busy    float64
	mates   []int // the harness's own, which are not "other"
	own     float64
}

// Watch starts a reading of the processes and all their children; without
// pids it reads nothing. Mates are processes of the harness beside this one.
func Watch(pids []int, mates ...int) *Processes {
	p := &Processes{pids: family(pids), mates: append(mates, os.Getpid()), started: time.Now()}
	if len(p.pids) == 0 {
		return p
	}
	p.cpu = sumCPU(p.pids)
	for _, pid := range p.pids {
		rss, _ := memory(pid)
		p.rss += rss
	}
	p.busy, _ = machineBusy()
	p.own = sumCPU(p.mates)
	return p
}

// Stop gives the usage since Watch; nil when nothing was watched.
func (p *Processes) Stop() *Usage {
	if len(p.pids) == 0 {
		return nil
	}
	u := &Usage{PIDs: p.pids, RSSStart: p.rss, CPUSeconds: sumCPU(p.pids) - p.cpu}
	for _, pid := range p.pids {
		rss, peak := memory(pid)
		u.RSSBytes += rss
		u.PeakBytes += peak
	}
	elapsed := time.Since(p.started).Seconds()
	busy, cpus := machineBusy()
	u.MachineCPUs = cpus
	if elapsed > 0 && cpus > 0 {
		u.CPUShare = u.CPUSeconds / elapsed
		own := sumCPU(p.mates) - p.own
		u.OtherShare = max(0, (busy-p.busy-own-u.CPUSeconds)/elapsed/float64(cpus))
	}
	return u
}

func (u *Usage) per(requests, events int64) *Usage {
	if requests > 0 {
		u.PerRequestUs = u.CPUSeconds / float64(requests) * 1e6
		u.PerThousand = u.CPUSeconds / float64(requests) * 1e3
	}
	if events > 0 {
		u.PerEventUs = u.CPUSeconds / float64(events) * 1e6
	}
	return u
}

// CheckPIDs reports a wrong pid before a run depends on it.
func CheckPIDs(pids ...int) error {
	for _, pid := range pids {
		if _, err := os.Stat("/proc/self/stat"); err != nil {
			return fmt.Errorf("cannot measure process %d: this system has no /proc; leave --pid out", pid)
		}
		if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "stat")); err != nil {
			return fmt.Errorf("cannot measure process %d: there is no such process; see ps for the right --pid", pid)
		}
	}
	return nil
}

// RSS is the resident memory of processes and their children.
func RSS(pids ...int) int64 {
	var sum int64
	for _, pid := range family(pids) {
		rss, _ := memory(pid)
		sum += rss
	}
	return sum
}

// PSS is the memory of processes and their children in which a page that several
// processes share counts in parts; 0 where the system does not report it.
func PSS(pids ...int) (sum int64) {
	for _, pid := range family(pids) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		sum += kilobytes(b, "Pss") << 10
	}
	return sum
}

// family adds all descendants (nginx works in a child of the process that was
// started).
func family(pids []int) []int {
	seen := map[int]bool{}
	var out []int
	var add func(pid, depth int)
	add = func(pid, depth int) {
		if seen[pid] || depth > 8 {
			return
		}
		seen[pid] = true
		out = append(out, pid)
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
		for _, t := range tasks {
			b, _ := os.ReadFile(t)
			for _, f := range strings.Fields(string(b)) {
				if child, err := strconv.Atoi(f); err == nil {
					add(child, depth+1)
				}
			}
		}
	}
	for _, pid := range pids {
		add(pid, 0)
	}
	return out
}

func sumCPU(pids []int) (seconds float64) {
	for _, pid := range pids {
		seconds += cpuSeconds(pid)
	}
	return seconds
}

const tick = 0.01 // seconds in a clock tick, as the kernel reports to all programs

// cpuSeconds is user and system time. The scheduler's own nanosecond count of
// every thread is taken where the kernel has it; ticks are too coarse for runs
// of a few seconds at low load.
func cpuSeconds(pid int) float64 {
	var ticks float64
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		if end := bytes.LastIndexByte(b, ')'); end >= 0 {
			f := strings.Fields(string(b[end+1:]))
			if len(f) > 12 {
				user, _ := strconv.ParseFloat(f[11], 64)
				system, _ := strconv.ParseFloat(f[12], 64)
				ticks = (user + system) * tick
			}
		}
	}
	var exact float64
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		if err != nil {
			continue
		}
		first, _, _ := strings.Cut(string(b), " ")
		ns, _ := strconv.ParseFloat(first, 64)
		exact += ns / 1e9
	}
	if exact > 0 {
		return exact
	}
	return ticks
}

func memory(pid int) (rss, peak int64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	return kilobytes(b, "VmRSS") << 10, kilobytes(b, "VmHWM") << 10
}

// kilobytes is the value of a line such as "VmRSS:  1024 kB".
func kilobytes(text []byte, name string) int64 {
	for line := range strings.Lines(string(text)) {
		if found, value, _ := strings.Cut(line, ":"); found == name {
			kb, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			return kb
		}
	}
	return 0
}

// machineBusy is the CPU time all processes have used, in seconds.
func machineBusy() (seconds float64, cpus int) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		if f[0] != "cpu" {
			cpus++
			continue
		}
		for i, v := range f[1:9] {
			if i == 3 || i == 4 { // idle, iowait
				continue
			}
			n, _ := strconv.ParseFloat(v, 64)
			seconds += n * tick
		}
	}
	return seconds, cpus
}
