package board

import "testing"

func TestLease(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir, DefaultConfig("LAT")); err != nil {
		t.Fatal(err)
	}
	b, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	isLost := func(want bool) {
		t.Helper()
		l, err := b.TakeLost("a")
		if err != nil || (l != nil) != want {
			t.Fatalf("TakeLost = %v, %v, want one: %v", l, err, want)
		}
		if l != nil {
			if err := l.Leave(); err != nil {
				t.Error(err)
			}
		}
	}
	isLost(false) // there is none
	l, err := b.Lease("a")
	if err != nil {
		t.Fatal(err)
	}
	isLost(false) // its holder lives
	if _, err := b.Lease("a"); err == nil {
		t.Error("a second process gets the lease")
	}
	if err := l.Leave(); err != nil { // as after a crash
		t.Fatal(err)
	}
	isLost(true)
	if l, err = b.TakeLost("a"); err != nil {
		t.Fatal(err)
	}
	if err := l.End(); err != nil {
		t.Fatal(err)
	}
	isLost(false)
}
