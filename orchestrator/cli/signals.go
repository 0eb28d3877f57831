package cli

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Signals are the signals of this process on their way to a command.
type Signals struct {
	Names <-chan string
	Stop  func() // ends the forwarding; the signals have their old meaning again
}

// patience is how many signals a command may ignore.
const patience = 3

// ForwardSignals sends interrupts, terminations and hangups to a command. giveUp is called when it ignores them; and a
// while after a hangup or termination when it has a terminal, because no one is there to see it any more.
func ForwardSignals(tty bool, giveUp func()) Signals {
	known := map[os.Signal]string{os.Interrupt: "INT", syscall.SIGTERM: "TERM", syscall.SIGHUP: "HUP"}
	came, names, done := make(chan os.Signal, patience), make(chan string, patience), make(chan struct{})
	for s := range known {
		signal.Notify(came, s)
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-done:
				return
			case s := <-came:
				if n >= patience {
					giveUp()
					return
				}
				names <- known[s]
				if tty && s != os.Interrupt {
					timer := time.AfterFunc(giveUpAfter, giveUp)
					defer timer.Stop()
				}
			}
		}
	})
	return Signals{Names: names, Stop: sync.OnceFunc(func() {
		signal.Stop(came)
		close(done)
		watch.Wait()
	})}
}

// giveUpAfter is how long a command with a terminal may take to end when this side's terminal is gone.
const giveUpAfter = 2 * time.Second
