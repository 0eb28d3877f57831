package store_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
)

// chained makes a store whose runs have events and chained facts, as engines append them, closed.
func chained(t *testing.T, path string) {
	t.Helper()
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "run_a", "run_b")
	for _, id := range []string{"run_a", "run_b"} {
		var last lattice.Seq
		chain := ""
		for step := range 40 {
			f := fact(id, fmt.Sprintf(`{"step":%d,"text":%q}`, step, strings.Repeat("x", 9*step)))
			f.Chain = lattice.Chain(chain, f)
			chain = f.Chain
			if last, err = s.Append(t.Context(), id, last, []lattice.Entry{event(id, fmt.Sprint(step)), f, state(id, string(f.Body))}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 20 {
		e := audit.Entry{At: time.Unix(int64(i), 0), Kind: audit.Intent, Subject: "intent:" + fmt.Sprint(i%3), Key: fmt.Sprint(i), Body: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}
		if _, _, err := s.AppendAudit(t.Context(), e, store.Any); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// told is everything that a store says, and the first error of that.
func told(s *store.Store) (string, error) {
	var out strings.Builder
	w := json.NewEncoder(&out)
	runs, err := s.Runs()
	if err != nil {
		return "", err
	}
	for _, subject := range []string{"", "intent:0", "intent:1", "intent:2"} {
		if err := s.Audit(subject, 0, func(e audit.Entry) error { return w.Encode(e) }); err != nil {
			return "", err
		}
	}
	for _, r := range runs {
		run, err := s.Run(r.ID)
		if err != nil {
			return "", err
		}
		entries, err := s.Entries(r.ID, 0, 0)
		if err != nil {
			return "", err
		}
		outline, err := s.Outline(r.ID, 0, 8)
		if err != nil {
			return "", err
		}
		history, err := s.Load(r.ID)
		if err != nil {
			return "", err
		}
		for _, v := range []any{run, run.Program, run.Secret, entries, outline, history} {
			if err := w.Encode(v); err != nil {
				return "", err
			}
		}
	}
	all, err := s.Entries("", 0, 0)
	if err != nil {
		return "", err
	}
	return out.String(), w.Encode(all)
}

// usedPages returns the pages of a file that hold something; most of a small one are free.
func usedPages(t *testing.T, path string) (pages []int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		for id := 0; ; {
			info, err := tx.Page(id)
			if err != nil || info == nil {
				return err
			}
			for n := range info.OverflowCount + 1 {
				if info.Type != "free" {
					pages = append(pages, id+n)
				}
			}
			id += info.OverflowCount + 1
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// TestNoSilentDamage changes bytes in the used pages of a store: a check finds each change, or nothing that the store tells is
// another. What is read without a check is an error or as it was, but for entries that the index does not lead to any more.
func TestNoSilentDamage(t *testing.T) {
	dir := t.TempDir()
	if d, err := os.MkdirTemp("/dev/shm", "lattice-test-"); err == nil {
		dir = d
		defer os.RemoveAll(d)
	}
	path := filepath.Join(dir, "store.db")
	chained(t, path)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := told(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	pages, page := usedPages(t, path), os.Getpagesize()
	rounds, found := 600, 0
	if testing.Short() {
		rounds = 200
	}
	for range rounds {
		raw := bytes.Clone(whole)
		at, width := pages[random.IntN(len(pages))]*page+random.IntN(page), 1
		if random.IntN(4) == 0 {
			width = 1 + random.IntN(64)
		}
		for i := at; i < min(at+width, len(raw)); i++ {
			raw[i] ^= byte(1 + random.IntN(255))
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		noticed, got := func() (bool, string) {
			if problems, err := store.CheckPages(path, nil); err != nil || len(problems) > 0 {
				return true, ""
			}
			s, err := store.OpenReadOnly(path)
			if err != nil {
				return true, ""
			}
			defer s.Close()
			problems, err := s.Check(t.Context(), nil)
			got, failed := told(s)
			return err != nil || failed != nil || len(problems) > 0, got
		}()
		if noticed {
			found++
		} else if got != want {
			t.Errorf("seed %d: a change of %d bytes at offset %d of page %d is not noticed: %q became %q",
				seed, width, at%page, at/page, whole[max(at-32, 0):at+width+32], raw[max(at-32, 0):at+width+32])
		}
	}
	if found == 0 {
		t.Error("no damage was found")
	}
	t.Logf("%d of %d damages were found, the others changed nothing", found, rounds)
}

// TestCheckFollowsTheChain holds that a fact which was replaced by a sound one, checksum and all, is found.
func TestCheckFollowsTheChain(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	create(t, s, "run_a")
	first := fact("run_a", `{"step":1}`)
	first.Chain = lattice.Chain("", first)
	second := fact("run_a", `{"step":2}`)
	second.Chain = lattice.Chain("of another journal", second)
	if _, err := s.Append(t.Context(), "run_a", 0, []lattice.Entry{first, second}); err != nil {
		t.Fatal(err)
	}
	problems, err := s.Check(t.Context(), nil)
	if err != nil || len(problems) != 1 || problems[0].Code != "chain" || problems[0].Run != "run_a" {
		t.Errorf("Check = %v, %v, want one problem with the chain", problems, err)
	}
	if _, err := s.Load("run_a"); err == nil {
		t.Error("Load takes facts that do not follow from each other")
	}
}
