// Package storage looks after the store of a home: checks, compaction, backups and their restore. Start with Storage;
// Restore and CheckFile work without a leader.
package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Sweep removes temporary files that a killed process left next to the store. The caller holds the home's lock.
func Sweep(home home.Home) error {
	for _, made := range []string{".new-store-*", ".compact-*", ".restore-*"} {
		left, err := filepath.Glob(filepath.Join(string(home), made))
		if err != nil {
			return fmt.Errorf("sweep the state directory: %w", err)
		}
		for _, path := range left {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("sweep the state directory: %w", err)
			}
		}
	}
	return nil
}

// Storage checks, compacts and backs up the store (api.Storage).
type Storage struct {
	Home    home.Home
	Store   *store.Store
	Host    *host.Host // nil with a remote Sprites API
	Remote  bool
	Scratch string // folder for the copy of the store during a backup
	Version string // of lattice
}

// CheckStore checks the store (api.Storage). Driven runs wait for a part of it.
func (s *Storage) CheckStore(ctx context.Context, progress func(api.StoreProgress)) (api.StoreReport, error) {
	report, err := checkStore(ctx, s.Store, progress)
	if err != nil || s.Remote {
		return report, err
	}
	audit := func() (records.Audit, error) { return records.AuditDir(s.Home.Sprites()) }
	if s.Host != nil {
		audit = s.Host.Audit
	}
	return report, addAudit(&report, audit)
}

// CheckHome is CheckStore for a home that no process leads; the caller holds its lock. address is that of its store.
func CheckHome(ctx context.Context, home home.Home, address string, progress func(api.StoreProgress)) (api.StoreReport, error) {
	check := CheckFile
	if store.IsDatabase(address) {
		check = checkDatabase
	}
	report, err := check(ctx, address, progress)
	if err != nil {
		return report, err
	}
	return report, addAudit(&report, func() (records.Audit, error) { return records.AuditDir(home.Sprites()) })
}

// addAudit adds the findings about the database of the embedded host.
func addAudit(r *api.StoreReport, audit func() (records.Audit, error)) error {
	a, err := audit()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // there were no sprites yet
	case errors.Is(err, records.ErrDamaged):
		a.Problems = append(a.Problems, err.Error())
	case err != nil:
		return problem.StoreProblem(err)
	}
	r.Host = &api.HostReport{Path: a.Path, Bytes: a.Bytes, Sprites: a.Sprites}
	for _, problem := range a.Problems {
		f := api.StoreFinding{Code: "sprites", Message: problem, Hint: "end every lattice, then: lattice store repair"}
		r.Findings, r.OK = append(r.Findings, f), false
	}
	return nil
}

// CheckFile is CheckStore for a file that no leader has open; it may be too damaged to be opened.
func CheckFile(ctx context.Context, path string, progress func(api.StoreProgress)) (api.StoreReport, error) {
	report := api.StoreReport{Path: path, Findings: []api.StoreFinding{}}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return report, fault.NotFound("store_missing", "there is no store at %s", path).WithHint("lattice run makes one")
	}
	if err != nil {
		return report, problem.StoreProblem(fmt.Errorf("check the store: %w", err))
	}
	report.Bytes = info.Size()
	problems, err := store.CheckPages(path, reportPart(progress, "pages"))
	if err != nil {
		return report, problem.StoreProblem(err)
	}
	if len(problems) > 0 {
		addProblems(&report, problems)
		return report, nil
	}
	s, err := store.OpenReadOnly(path)
	if errors.Is(err, store.ErrDamaged) {
		addProblems(&report, []store.Problem{{Code: "page", Message: err.Error()}})
		return report, nil
	}
	if err != nil {
		return report, problem.StoreProblem(err)
	}
	report, err = checkStore(ctx, s, progress)
	return report, errors.Join(err, s.Close())
}

// checkDatabase is CheckStore for a database, which another process may write to meanwhile.
func checkDatabase(ctx context.Context, url string, progress func(api.StoreProgress)) (report api.StoreReport, err error) {
	s, err := store.OpenReadOnly(url)
	if err != nil {
		return report, problem.StoreProblem(err)
	}
	report, err = checkStore(ctx, s, progress)
	return report, errors.Join(err, s.Close())
}

func checkStore(ctx context.Context, s *store.Store, progress func(api.StoreProgress)) (report api.StoreReport, err error) {
	report = api.StoreReport{Path: s.Name(), Findings: []api.StoreFinding{}}
	if report.Bytes, err = s.Size(); err != nil {
		return report, problem.StoreProblem(err)
	}
	problems, err := s.Check(ctx, reportPart(progress, "entries"))
	if err != nil {
		return report, problem.StoreProblem(err)
	}
	addProblems(&report, problems)
	if len(problems) == 0 { // else the log may be unreadable
		if problems, err = checkFacts(ctx, s); err != nil {
			return report, problem.StoreProblem(err)
		}
		addProblems(&report, problems)
	}
	runs, err := s.Runs()
	if err != nil {
		return report, problem.StoreProblem(err)
	}
	records, tell := &history.Records{Store: s}, reportPart(progress, "runs")
	for i, r := range runs {
		if err := ctx.Err(); err != nil {
			return report, err
		}
		entries, err := checkRun(records, r.ID)
		if err != nil {
			report.Findings = append(report.Findings, newFinding("fold", r.ID, err.Error()))
		}
		report.Entries += entries
		tell(uint64(i+1), uint64(len(runs)))
	}
	report.Runs = len(runs)
	report.OK = len(report.Findings) == 0
	return report, nil
}

// checkRun folds the facts of a run and compares the state with the stored snapshot, byte for byte.
func checkRun(records *history.Records, id string) (entries int, err error) {
	all, err := records.Store.Entries(id, 0, 0)
	if err != nil {
		return 0, err
	}
	p, h, err := records.ReadHistory(id)
	if err == nil {
		_, err = history.NewHistory(h).Fold(p.Parsed, id)
	}
	return len(all), err
}

func addProblems(r *api.StoreReport, problems []store.Problem) {
	for _, p := range problems {
		r.Findings = append(r.Findings, newFinding(p.Code, p.Run, p.Message))
	}
}

func newFinding(code, run, message string) api.StoreFinding {
	f := api.StoreFinding{Code: code, RunID: run, Message: message, Hint: "lattice store restore FILE, with a backup from before"}
	if code == "fold" {
		f.Hint = "drive the run with the lattice that wrote it, or lattice cancel " + run
	}
	return f
}

// reportPart returns a function that reports progress of one part, at most ten times a second.
func reportPart(progress func(api.StoreProgress), doing string) func(done, of uint64) {
	var last time.Time
	return func(done, of uint64) {
		if progress == nil || done < of && time.Since(last) < 100*time.Millisecond {
			return
		}
		last = time.Now()
		progress(api.StoreProgress{Doing: doing, Done: done, Of: of})
	}
}

// CompactStore rewrites the store without its free pages (api.Storage). Driven runs wait.
func (s *Storage) CompactStore(ctx context.Context, progress func(api.StoreProgress)) (api.Compaction, error) {
	before, after, err := s.Store.Compact(ctx, reportPart(progress, "records"))
	return api.Compaction{BytesBefore: before, BytesAfter: after}, problem.StoreProblem(err)
}

// BackupStore writes an archive of the store and of the bundles that its runs may push (api.Storage). It copies the store first,
// so that a slow reader holds nothing up.
func (s *Storage) BackupStore(ctx context.Context, open func(size int64) io.Writer) (err error) {
	scratch := s.Scratch
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return problem.StoreProblem(fmt.Errorf("back up: %w", err))
	}
	dir, err := os.MkdirTemp(scratch, "backup-*")
	if err != nil {
		return problem.StoreProblem(fmt.Errorf("back up: %w", err))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	copied := dir + "/" + memberStore
	if err := s.Store.CopyTo(copied); err != nil {
		return problem.StoreProblem(fmt.Errorf("back up: %w", err))
	}
	runs, err := s.Store.Count()
	if err != nil {
		return problem.StoreProblem(fmt.Errorf("back up: %w", err))
	}
	about := BackupInfo{Format: backupFormat, Lattice: s.Version, Schema: store.SchemaVersion, CreatedAt: time.Now().UTC(), Runs: runs}
	bundles, size, err := listBundles(s.Home.Bundles())
	if err != nil {
		return problem.StoreProblem(err)
	}
	info, err := os.Stat(copied)
	if err != nil {
		return problem.StoreProblem(fmt.Errorf("back up: %w", err))
	}
	return writeArchive(ctx, open(size+info.Size()), about, copied, bundles)
}
