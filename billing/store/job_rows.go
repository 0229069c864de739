package store

import (
	"errors"
	"time"
)

var errNoJobs = errors.New("this store keeps no jobs")

func (s *sqlStore) AddJob(*JobRow, int64) (*JobRow, error)             { return nil, errNoJobs }
func (s *sqlStore) DropJob(*JobRow) (bool, error)                      { return false, errNoJobs }
func (s *sqlStore) Job(string) (*JobRow, error)                        { return nil, errNoJobs }
func (s *sqlStore) JobsOf(uint32) ([]*JobRow, error)                   { return nil, nil }
func (s *sqlStore) UpdateJob(*JobRow, ...JobState) (bool, error)       { return false, errNoJobs }
func (s *sqlStore) ReleaseJob(string, int64) (bool, error)             { return false, errNoJobs }
func (s *sqlStore) TakeJobs(uint32, bool) (int, error)                 { return 0, nil }
func (s *sqlStore) JobCounts(uint32) (c JobCounts, err error)          { return c, nil }
func (s *sqlStore) FinishedTimes(string, int) ([]time.Duration, error) { return nil, nil }
func (s *sqlStore) ExpiredJobs(uint32, int64, int) ([]*JobRow, error)  { return nil, nil }
func (s *sqlStore) PurgeJobs(int64, int) (int, error)                  { return 0, nil }
func (s *sqlStore) Jobs(uint32, int) ([]*JobRow, error)                { return nil, nil }
func (s *sqlStore) RefundsDue(int) ([]string, error)                   { return nil, nil }
func (s *sqlStore) RefundJob(string, int32, int64) (*JobRow, error)    { return nil, nil }
func (s *sqlStore) JobSold(uint32, uint64) (bool, error)               { return false, nil }

func (s *sqlStore) AddVoice(*VoiceRow) error                       { return errNoJobs }
func (s *sqlStore) Voice(uint32, string, int64) (*VoiceRow, error) { return nil, ErrNoRow }
func (s *sqlStore) Voices(uint32) ([]*VoiceRow, error)             { return nil, nil }
func (s *sqlStore) TouchVoice(string, int64) error                 { return nil }
func (s *sqlStore) ExpiredVoices(int64, int) ([]*VoiceRow, error)  { return nil, nil }
func (s *sqlStore) DeleteVoice(string) (bool, error)               { return false, nil }
