package leader

import (
	"context"
	"sync"
)

// followInBackground calls functions that follow something until their context ends, and returns a function that ends it and
// waits for them.
func followInBackground(follow ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, f := range follow {
		all.Go(func() { f(ctx) })
	}
	return func() { cancel(); all.Wait() }
}
