package fair

import (
	"sync"
	"sync/atomic"
)

// Each runs f for 0 to n-1, at most so many at a time, and waits for all. A panic of f
// continues in the caller. x/sync/errgroup lets a panic end the process.
func Each(n, most int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var group sync.WaitGroup
	var panicked atomic.Pointer[any]
	places := make(chan struct{}, most)
	for i := range n {
		places <- struct{}{}
		group.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					panicked.Store(&v)
				}
				<-places
			}()
			f(i)
		})
	}
	group.Wait()
	if v := panicked.Load(); v != nil {
		panic(*v)
	}
}
