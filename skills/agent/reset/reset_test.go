package reset

import (
	"testing"
	"time"
)

func TestFind(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("CET", 3600)
	now := time.Date(2026, 11, 23, 10, 20, 30, 0, zone)
	in := func(d time.Duration) time.Time { return now.Add(d) }
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 11, day, hour, minute, 0, 0, zone) }
	for words, want := range map[string]time.Time{
		"You've hit your 5-hour limit · resets 3pm":                                                       at(23, 15, 1),
		"You've hit your 5-hour limit · resets 10:21am (UTC)":                                             time.Date(2026, 11, 23, 10, 22, 0, 0, time.UTC),
		"You've hit your weekly limit · resets Nov 26, 8am (UTC)":                                         time.Date(2026, 11, 26, 8, 1, 0, 0, time.UTC),
		"You've hit your weekly limit · resets Jan 2, 8am":                                                time.Date(2027, 1, 2, 8, 1, 0, 0, zone),
		"limit reached · resets 9:05am":                                                                   at(24, 9, 6),
		"limit reached · resets 10:20am":                                                                  at(23, 10, 21),
		"limit reached · resets 10:11am":                                                                  at(23, 10, 12),
		"You’ve hit your usage limit. Upgrade (https://x.test/7), or try again at 10:20 PM.":              at(23, 22, 21),
		"You’ve hit your usage limit. Upgrade, or try again at Nov 25th, 2026 8:21 AM.":                   at(25, 8, 22),
		"Rate limit reached for gpt on tokens per min (TPM): Limit 30000. Please try again in 31.5s. See": in(31500 * time.Millisecond),
		"Please try again in 250ms.":                                                                      in(250 * time.Millisecond),
		"Your quota will reset after 11h59m41s.":                                                          in(12*time.Hour - 19*time.Second),
		"[API Error: Please retry in 3600.5s.]":                                                           in(time.Hour + 500*time.Millisecond),
		"5-hour usage limit reached. It will reset in 2 hours 5 minutes. To go on, pay":                   in(2*time.Hour + 5*time.Minute),
		"try again in 3 days, 4 hours and 1 minute":                                                       in(76*time.Hour + time.Minute),
		"Claude AI usage limit reached|1795429206":                                                        time.Unix(1795429206, 0),
		`{"type":"usage_limit_reached","resets_at":1795429206,"resets_in_seconds":7200}`:                  time.Unix(1795429206, 0),
		`{"resets_in_seconds":7200}`:                                                                      in(2 * time.Hour),
		`"retryDelay": "34s"`:                                                                             in(34 * time.Second),
		"HTTP 429 retry-after: 3600":                                                                      in(time.Hour),
		"the quota resets at 2026-11-24T00:00:00Z":                                                        time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC),

		"API Error: Request rejected (429) · Please try again later.": {},
		"exceeded retry limit, last status: 429 Too Many Requests":    {},
		"resets 25pm":                     {},
		"resets 3pm (Mars/Olympus)":       {},
		"resets Foo 3, 3pm":               {},
		"it resets your password in 2022": {},
		"retry-after: 99999999999999999":  {},
		"":                                {},
	} {
		if got, ok := Find(words, now); ok != !want.IsZero() || ok && !got.Equal(want) {
			t.Errorf("Find(%q) = %v, %v, want %v", words, got, ok, want)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add("try again at Nov 25th, 2026 8:21 AM")
	f.Add("reset in 99999999 days 99999999 hours")
	f.Fuzz(func(_ *testing.T, words string) { Find(words, time.Unix(1_795_429_206, 0)) })
}
