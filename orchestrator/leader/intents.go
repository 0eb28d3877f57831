package leader

import "context"

// isPlanned reports whether people approved a plan that names an action, for a run.
func (l *Leader) isPlanned(run, name string) (bool, error) {
	rec, err := l.Records.LoadBrief(run)
	if err != nil || rec.Kept.Intent == "" {
		return false, err
	}
	return l.Pipeline.Covers(rec.Kept.Intent, run, name)
}

// settleIntent records with the intent of a run that the run has ended. If that fails, it is done when the intent is next
// looked at.
func (l *Leader) settleIntent(run string) {
	rec, err := l.Records.LoadBrief(run)
	if err == nil && rec.Kept.Intent != "" {
		_, err = l.Pipeline.Intent(context.Background(), rec.Kept.Intent)
	}
	if err != nil {
		addRun(l.cfg.Log.Warn().Err(err), run).Msg("settle the intent")
	}
}
