package routes

import (
	"sync"
	"time"

	"farebox/billing/job"
	"farebox/config"
)

// meterJobs makes the series of the machine. One look at it serves all of a scrape.
func (g *Gateway) meterJobs() {
	var mu sync.Mutex
	var last job.Stats
	var at time.Time
	stats := func() *job.Stats {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(at) > time.Second/2 {
			last, at = g.jobs.Stats(), time.Now()
		}
		s := last
		return &s
	}
	gauge := func(name string, f func(*job.Stats) int64) {
		g.metrics.set.NewGauge(name, func() float64 { return float64(f(stats())) })
	}
	for _, kind := range config.JobNames() {
		for _, state := range job.States {
			left := job.Left{Kind: kind, State: state}
			gauge(`farebox_jobs{kind="`+left.Kind+`",state="`+state+`"}`, func(s *job.Stats) int64 { return s.Jobs[left] })
		}
	}
	for outcome, f := range map[string]func(*job.Stats) int64{
		"completed": func(s *job.Stats) int64 { return s.Completed },
		"failed":    func(s *job.Stats) int64 { return s.Failed },
		"expired":   func(s *job.Stats) int64 { return s.Expired },
	} {
		gauge(`farebox_jobs_ended_total{outcome="`+outcome+`"}`, f)
	}
	for _, why := range job.Reasons {
		gauge(`farebox_job_alarms_total{reason="`+why+`"}`, func(s *job.Stats) int64 { return s.Alarms[why] })
	}
	gauge("farebox_job_steps_active", func(s *job.Stats) int64 { return s.Working })
	gauge("farebox_job_submissions_total", func(s *job.Stats) int64 { return s.Submits })
	gauge("farebox_job_submissions_unknown_total", func(s *job.Stats) int64 { return s.Again + s.Alarms["unknown"] })
	gauge("farebox_job_polls_total", func(s *job.Stats) int64 { return s.Polls })
	gauge("farebox_job_poll_errors_total", func(s *job.Stats) int64 { return s.PollErrors })
	gauge("farebox_job_cancels_total", func(s *job.Stats) int64 { return s.Cancels })
	gauge("farebox_job_cancels_unconfirmed_total", func(s *job.Stats) int64 { return s.CancelsLost })
	gauge("farebox_job_lost_ownership_total", func(s *job.Stats) int64 { return s.Lost })
	gauge("farebox_job_taken_over_total", func(s *job.Stats) int64 { return s.Taken })
	gauge("farebox_job_store_errors_total", func(s *job.Stats) int64 { return s.StoreErrors })
	gauge("farebox_job_media_errors_total", func(s *job.Stats) int64 { return s.KeepErrors })
	gauge("farebox_job_media_bytes_total", func(s *job.Stats) int64 { return s.MediaBytes })
	gauge("farebox_job_panics_total", func(s *job.Stats) int64 { return s.Panics })
}
