package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A note is tried for maxAge and then given up.
const (
	firstDelay = time.Second
	maxDelay   = 10 * time.Minute
	maxAge     = 24 * time.Hour
	grace      = 5 * time.Second // for notes that are due when Run ends
)

// Sender delivers the notes of a spool.
type Sender struct {
	spool *Spool
	// channels returns the channel of a name, as the settings have it now.
	channels func(name string) (Channel, error)
	client   *http.Client
	// log is told the outcome of a note: err is nil when it was delivered.
	log  func(n Note, err error)
	wake chan struct{}
}

// NewSender returns a Sender. Run delivers.
func NewSender(spool *Spool, channels func(name string) (Channel, error), log func(n Note, err error)) *Sender {
	return &Sender{spool: spool, channels: channels, client: NewClient(), log: log, wake: make(chan struct{}, 1)}
}

// Add puts a note into the spool and delivers it soon.
func (s *Sender) Add(n Note) error {
	if err := s.spool.Add(n); err != nil {
		return err
	}
	select {
	case s.wake <- struct{}{}:
	default: // Run looks anyway
	}
	return nil
}

// Run delivers notes until ctx ends, and then for a few seconds those that are due. The others stay in the spool.
func (s *Sender) Run(ctx context.Context) {
	sending, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })()
	for ended := false; ; {
		pause, err := s.deliverDue(sending)
		if err != nil {
			s.log(Note{}, err)
			pause = maxDelay
		}
		if ended {
			return
		}
		var due <-chan time.Time
		if pause >= 0 {
			due = time.After(pause)
		}
		select {
		case <-ctx.Done():
			ended = true
		case <-due:
		case <-s.wake:
		}
	}
}

// deliverDue tries each note that is due. If a channel does not take one, its others are tried later: each attempt may last seconds, for
// which the notes of other channels would wait. It returns the time until the next is due, negative if none is left.
func (s *Sender) deliverDue(ctx context.Context) (time.Duration, error) {
	all, err := s.spool.List()
	if err != nil {
		return 0, err
	}
	next, down := time.Duration(-1), map[string]time.Duration{} // channels that take nothing now, with the time until the next attempt
	for _, w := range all {
		wait := time.Until(w.Next)
		later, isDown := down[w.Channel]
		switch {
		case wait > 0 || ctx.Err() != nil:
		case isDown:
			wait = later
		default:
			if wait, err = s.attemptDelivery(ctx, w); err != nil {
				return 0, err
			}
			if wait > 0 {
				down[w.Channel] = wait
			}
		}
		if wait > 0 && (next < 0 || wait < next) {
			next = wait
		}
	}
	return next, nil
}

// attemptDelivery tries to deliver a note. It returns the time until the next attempt, 0 if there will be none. An error is one
// of the spool.
func (s *Sender) attemptDelivery(ctx context.Context, w Waiting) (time.Duration, error) {
	channel, err := s.channels(w.Channel)
	if err == nil && !channel.Takes(w.Level) {
		return 0, s.spool.removeNote(w.ID)
	}
	if err == nil {
		err = channel.Deliver(ctx, s.client, w.Note)
	}
	if ctx.Err() != nil {
		return maxDelay, nil // this process ends; the attempt does not count
	}
	var no *Refusal
	switch {
	case err == nil:
		s.log(w.Note, nil)
		return 0, s.spool.removeNote(w.ID)
	case errors.As(err, &no) && no.Final(), time.Since(w.At) > maxAge:
		s.log(w.Note, fmt.Errorf("given up after %d attempts: %w", w.Attempts+1, err))
		return 0, s.spool.removeNote(w.ID)
	}
	delay := min(firstDelay<<min(w.Attempts, 20), maxDelay)
	w.Attempts, w.Problem, w.Next = w.Attempts+1, err.Error(), time.Now().Add(delay)
	s.log(w.Note, err)
	return delay, s.spool.writeNote(w)
}
