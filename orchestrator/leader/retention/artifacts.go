package retention

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/artifact/report"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Bounds of the copies that are kept of a run when it ends. Other files can be read while the sprite exists.
const (
	maxKeptFile  = 8 << 20
	maxKeptFiles = 200
	maxKept      = 64 << 20
	keepTimeout  = time.Minute
)

// product is a file that a run declared by an ARTIFACT event.
type product struct {
	ref    string // as declared
	path   string // in the sprite
	sprite string
	sha256 string // as declared, "" when it was not
}

// copyName returns the file name of a product's copy. It is a digest, because names from a sprite are not trusted.
func (p product) copyName() string {
	sum := sha256.Sum256([]byte(p.sprite + "\x00" + p.ref + "\x00" + p.sha256))
	return hex.EncodeToString(sum[:16])
}

// asProduct reads the declaration of a file from an entry. It returns false if the entry is not one, or must be ignored.
func asProduct(e lattice.Entry) (product, bool) {
	artifact, ok := readArtifact(e)
	if !ok || artifact.Kind != "file" {
		return product{}, false
	}
	var declared struct{ SHA256 string }
	if json.Unmarshal(artifact.Metadata, &declared) != nil || len(declared.SHA256) != hex.EncodedLen(sha256.Size) {
		declared.SHA256 = ""
	}
	at, ok := inSprite(artifact.Ref)
	return product{ref: artifact.Ref, path: at, sprite: e.Sprite, sha256: strings.ToLower(declared.SHA256)}, ok
}

// inSprite returns the path of a declared file in the sprite. Relative names are below the workspace.
func inSprite(ref string) (string, bool) {
	if ref == "" || strings.ContainsRune(ref, 0) {
		return "", false
	}
	if path.IsAbs(ref) {
		return path.Clean(ref), true
	}
	at := path.Join("/workspace", ref)
	return at, strings.HasPrefix(at, "/workspace/")
}

// Artifacts keeps copies of the files that runs declare, and serves them (api.Artifacts).
type Artifacts struct {
	Home    home.Home
	Store   *store.Store
	Client  *sprites.Client
	Records *history.Records
	Outputs *history.Outputs
	Logger  zerolog.Logger
}

// Collect copies the files that a run declared. It may be called again. Failures go to the output log of the run.
func (a *Artifacts) Collect(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), keepTimeout)
	defer cancel()
	all, err := listProducts(a.Store, id)
	if err != nil {
		a.Logger.Warn().Str("run", id).Err(err).Msg("collect artifacts")
		return
	}
	room, left := int64(maxKept), 0
	for i, p := range all {
		if i >= maxKeptFiles || room <= 0 {
			left++
			continue
		}
		size, err := a.keepCopy(ctx, id, p, min(room, maxKeptFile))
		var unreachable *sprites.ConnError
		switch {
		case errors.As(err, &unreachable):
			fmt.Fprintf(a.Outputs.Open(id, ""), "artifacts were not kept: %v\n", err)
			return
		case errors.Is(err, sprites.ErrTooLarge):
			left++
		case err != nil:
			fmt.Fprintf(a.Outputs.Open(id, ""), "artifact %q was not kept: %v\n", p.ref, err)
			a.Logger.Warn().Str("run", id).Str("artifact", p.ref).Err(err).Msg("keep artifact")
		}
		room -= size
	}
	if left > 0 {
		fmt.Fprintf(a.Outputs.Open(id, ""), "%d artifacts are too large or too many to be kept; sprite %s has them while it exists\n", left, all[0].sprite)
	}
}

// keepCopy copies one product, unless a copy exists. It returns the size of the copy.
func (a *Artifacts) keepCopy(ctx context.Context, id string, p product, limit int64) (int64, error) {
	dir := a.Home.Artifacts(id)
	to := filepath.Join(dir, p.copyName())
	if info, err := os.Stat(to); err == nil {
		return info.Size(), nil
	}
	data, err := a.Client.ReadFile(ctx, p.sprite, p.path, limit)
	if err != nil {
		return 0, err
	}
	if sum := sha256.Sum256(data); p.sha256 != "" && hex.EncodeToString(sum[:]) != p.sha256 {
		return 0, errors.New("its content is not the declared content")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, fmt.Errorf("make artifacts directory: %w", err)
	}
	if summary := report.Recognise(data); summary != nil { // first: there is no summary of a file without a copy
		text, err := json.Marshal(summary)
		if err == nil {
			err = writeCopy(to+reportSuffix, text)
		}
		if err != nil {
			return 0, err
		}
	}
	return int64(len(data)), writeCopy(to, data)
}

// reportSuffix ends the name of the file with the summary of a copy that is a report.
const reportSuffix = ".report"

// writeCopy makes a file in one step.
func writeCopy(to string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(to), ".new-")
	if err != nil {
		return fmt.Errorf("write copy: %w", err)
	}
	defer os.Remove(tmp.Name()) // gone when it was renamed
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("write copy: %w", err)
	}
	if err := os.Rename(tmp.Name(), to); err != nil {
		return fmt.Errorf("write copy: %w", err)
	}
	return nil
}

// readReport returns the summary of a declared file, nil if the file is not a report or no copy was kept.
func (a *Artifacts) readReport(e lattice.Entry) *report.Report {
	p, ok := asProduct(e)
	if !ok {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(a.Home.Artifacts(e.Run), p.copyName()+reportSuffix))
	summary := new(report.Report)
	if err != nil || json.Unmarshal(text, summary) != nil {
		return nil
	}
	return summary
}

// Artifact opens a file that a run declared: its copy, else the file in the sprite.
func (a *Artifacts) Artifact(ctx context.Context, id, ref string) (io.ReadCloser, error) {
	id, err := a.Records.Resolve(id)
	if err != nil {
		return nil, err
	}
	all, err := listProducts(a.Store, id)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if p.ref != ref {
			continue
		}
		if f, err := os.Open(filepath.Join(a.Home.Artifacts(id), p.copyName())); err == nil {
			return f, nil
		}
		content, err := a.Client.ReadFrom(ctx, p.sprite, p.path, 0)
		if errors.Is(err, sprites.ErrNotFound) {
			return nil, fault.NotFound("artifact_gone", "%s is not in sprite %s any more, and no copy was kept: %v", ref, p.sprite, err).WithHint("lattice logs %s says why no copy was kept", id)
		}
		return content, err
	}
	return nil, fault.NotFound("artifact_not_found", "run %s declared no file %q", id, ref).WithHint("lattice artifacts %s", id)
}

// listProducts returns the files that a run declared, each with its last declaration, in the order of the first ones.
func listProducts(s *store.Store, id string) ([]product, error) {
	var all []product
	at := map[string]int{}
	declared, _, err := s.Events(id, string(protocol.TypeArtifact), "", 0)
	if err != nil {
		return nil, fmt.Errorf("read artifacts of run %s: %w", id, err)
	}
	for _, e := range declared {
		p, ok := asProduct(e)
		if !ok {
			continue
		}
		if i, known := at[p.ref]; known {
			all[i] = p
			continue
		}
		at[p.ref] = len(all)
		all = append(all, p)
	}
	return all, nil
}
