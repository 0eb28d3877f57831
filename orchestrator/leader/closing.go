package leader

import "errors"

// Quiesce ends every drive and every sandbox. Runs stay resumable. Requests are still answered, so that the server can shut
// down without cutting one off; Close comes after that.
func (l *Leader) Quiesce() error { return l.quiesced() }

func (l *Leader) endWork() error {
	close(l.Succession.Ending)
	if l.stop != nil {
		l.stop()
	}
	l.drives.StopAll()
	if l.endEngine != nil {
		l.endEngine()
	}
	l.notifier.close()
	if l.session != nil {
		l.session.Close()
	}
	if l.host != nil {
		return l.host.Close()
	}
	return nil
}

// Close ends the leader, and closes the store. It is called once.
func (l *Leader) Close() error {
	err := l.Quiesce()
	if l.store != nil {
		err = errors.Join(err, l.store.Close())
	}
	return err
}
