package session

import "time"

// moment is for how long calls are small.
const moment = 5 * time.Millisecond

// pace is a slow-call detector: it tells Options.Hurry whether calls have run for longer than a moment. Its timer is not
// stopped for each call, because that costs more than a short call.
type pace struct {
	hurry   func(bool)
	timer   *time.Timer
	armed   bool
	hurried bool
	since   time.Time // when calls began to be at work, with no gap since
}

func newPace(hurry func(bool)) pace {
	p := pace{hurry: hurry, timer: time.NewTimer(time.Hour)}
	p.timer.Stop()
	return p
}

// addCall notes that a call is about to start while others run.
func (p *pace) addCall(running int) {
	if running == 0 {
		p.since = time.Now()
	}
	p.armTimer()
}

func (p *pace) armTimer() {
	if !p.armed {
		p.armed = true
		p.timer.Reset(moment)
	}
}

// checkCalls is for when the timer has fired.
func (p *pace) checkCalls(running int) {
	p.armed = false
	long := running > 0 && time.Since(p.since) >= moment
	if long != p.hurried && (long || running == 0) {
		p.hurried = long
		p.hurry(long)
	}
	if running > 0 && !p.hurried {
		p.armTimer()
	}
}

// removeCall notes that a call has ended, and how many still run. In between there is nothing to look for: a call may take hours.
func (p *pace) removeCall(running int) {
	if running == 0 && p.hurried {
		p.armTimer()
	}
}

func (p *pace) stopTimer() { p.timer.Stop() }
