package git

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// keyTrailer carries the idempotency key of the call that made a commit.
const keyTrailer = "Lattice-Key"

type commitInput struct {
	Message    string            `json:"message"`
	Repo       string            `json:"repo"`
	All        bool              `json:"all"`
	Author     *identity         `json:"author"`
	Date       string            `json:"date"`
	AllowEmpty bool              `json:"allow_empty"`
	Trailers   map[string]string `json:"trailers"`
	ExpectHead string            `json:"expect_head"`
	Trust      bool              `json:"trust_repo_config"`
}

type identity struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

type commitData struct {
	Commit       string   `json:"commit"`
	Tree         string   `json:"tree"`
	Parents      []string `json:"parents"`
	Branch       string   `json:"branch"`
	FilesChanged int      `json:"files_changed"`
	Additions    int      `json:"additions"`
	Deletions    int      `json:"deletions"`
	Already      bool     `json:"already"`
}

// Commit is git.commit.
func (f family) Commit(ctx context.Context, c *skill.Call) (skill.Result, error) {
	var in commitInput
	if err := c.Bind(&in); err != nil {
		return skill.Result{}, err
	}
	message, err := in.fullMessage(c.IdempotencyKey)
	if err != nil {
		return skill.Result{}, err
	}
	if err := in.check(); err != nil {
		return skill.Result{}, err
	}
	r, err := f.open(ctx, c, in.Repo, in.Trust)
	if err != nil {
		return skill.Result{}, err
	}
	head, err := r.resolve(ctx, "HEAD")
	if err != nil {
		return skill.Result{}, err
	}
	if already, err := r.carries(ctx, head, c.IdempotencyKey); err != nil {
		return skill.Result{}, err
	} else if already {
		return r.describe(ctx, c, true)
	}
	if in.ExpectHead != "" && head != in.ExpectHead {
		return skill.Result{}, skill.Failed("head_moved", "HEAD is at %q, not at %s", head, in.ExpectHead)
	}
	if in.All {
		if err := r.stage(ctx, nil); err != nil {
			return skill.Result{}, err
		}
	}
	if err := r.commit(ctx, c, in, message); err != nil {
		return skill.Result{}, err
	}
	return r.describe(ctx, c, false)
}

func (r *repo) commit(ctx context.Context, c *skill.Call, in commitInput, message string) error {
	if !in.AllowEmpty && !exists(filepath.Join(r.gitDir, "MERGE_HEAD")) {
		staged, err := r.staged(ctx)
		if err != nil {
			return err
		}
		if len(staged) == 0 {
			return skill.Failed("nothing_to_commit", "nothing is staged in %s", r.rel).
				WithHint(`stage files with git.add, or set "all":true`)
		}
	}
	who, err := r.identity(ctx, c, in.Author)
	if err != nil {
		return err
	}
	env := []string{
		"GIT_AUTHOR_NAME=" + who.Name, "GIT_AUTHOR_EMAIL=" + who.Email,
		"GIT_COMMITTER_NAME=" + who.Name, "GIT_COMMITTER_EMAIL=" + who.Email,
	}
	if in.Date != "" {
		env = append(env, "GIT_AUTHOR_DATE="+in.Date, "GIT_COMMITTER_DATE="+in.Date)
	}
	args := []string{"commit", "--quiet", "--no-verify", "--no-gpg-sign", "--no-status", "--cleanup=whitespace", "--file=-"}
	if in.AllowEmpty {
		args = append(args, "--allow-empty")
	}
	_, err = r.in(ctx, command{args: args, env: env, stdin: message})
	return explain(err, "commit_failed")
}

// identity is who commits: as asked, else as the repository is configured, else Lattice.
func (r *repo) identity(ctx context.Context, c *skill.Call, asked *identity) (identity, error) {
	if asked != nil {
		return *asked, nil
	}
	var configured identity
	for key, field := range map[string]*string{"user.name": &configured.Name, "user.email": &configured.Email} {
		value, err := r.setting(ctx, key)
		if err != nil {
			return identity{}, err
		}
		*field = strings.TrimSpace(value)
	}
	if configured.check() == nil {
		return configured, nil
	}
	c.Warn("default_identity", "no author was given and the repository names none: committed as Lattice <lattice@localhost>")
	return identity{Name: "Lattice", Email: "lattice@localhost"}, nil
}

func (id identity) check() error {
	for _, f := range []struct{ name, value string }{{"name", id.Name}, {"email", id.Email}} {
		if strings.TrimSpace(f.value) == "" {
			return skill.BadInput("/author/"+f.name, "is empty")
		}
		if strings.ContainsAny(f.value, "<>\n\r\x00") || len(f.value) > 256 {
			return skill.BadInput("/author/"+f.name, "holds characters that no identity has, or too many")
		}
	}
	return nil
}

func (in *commitInput) check() error {
	if in.Author != nil {
		if err := in.Author.check(); err != nil {
			return err
		}
	}
	if in.Date != "" {
		if _, err := time.Parse(time.RFC3339, in.Date); err != nil {
			return skill.BadInput("/date", "%q is no RFC 3339 time such as 2026-01-31T12:00:00Z", in.Date)
		}
	}
	if in.ExpectHead != "" && !isCommitID(in.ExpectHead) {
		return skill.BadInput("/expect_head", "is no full commit id")
	}
	return nil
}

// fullMessage is the message with its trailers, in one block at the end.
func (in *commitInput) fullMessage(key string) (string, error) {
	message := strings.TrimSpace(in.Message)
	if message == "" {
		return "", skill.BadInput("/message", "is empty")
	}
	if strings.ContainsRune(message, 0) {
		return "", skill.BadInput("/message", "contains a NUL byte")
	}
	var trailers []string
	for _, name := range slices.Sorted(maps.Keys(in.Trailers)) {
		value := in.Trailers[name]
		if !isTrailerName(name) || strings.ContainsAny(value, "\n\r\x00") {
			return "", skill.BadInput("/trailers/"+name, "is no trailer: one line, named by letters, digits and dashes")
		}
		trailers = append(trailers, name+": "+value)
	}
	if key != "" && !strings.ContainsAny(key, "\n\r\x00") {
		trailers = append(trailers, keyTrailer+": "+key)
	}
	if len(trailers) == 0 {
		return message + "\n", nil
	}
	gap := "\n\n"
	if i := strings.LastIndex(message, "\n\n"); i >= 0 {
		lines := strings.Split(message[i+2:], "\n")
		if !slices.ContainsFunc(lines, func(l string) bool { name, _, ok := strings.Cut(l, ": "); return !ok || !isTrailerName(name) }) {
			gap = "\n"
		}
	}
	return message + gap + strings.Join(trailers, "\n") + "\n", nil
}

// carries reports whether the commit is the one that this key made.
func (r *repo) carries(ctx context.Context, head, key string) (bool, error) {
	if head == "" || key == "" {
		return false, nil
	}
	out, err := r.read(ctx, "show", "--no-patch", "--no-notes", "--format=%B", head, "--")
	if err != nil {
		return false, explain(err, "commit_failed")
	}
	for line := range strings.Lines(string(out)) {
		if strings.TrimRight(line, "\r\n") == keyTrailer+": "+key {
			return true, nil
		}
	}
	return false, nil
}

// describe is the result: HEAD and what it changed.
func (r *repo) describe(ctx context.Context, c *skill.Call, already bool) (skill.Result, error) {
	out, err := r.read(ctx, "show", "--no-patch", "--no-notes", "--format=%H%x00%T%x00%P", "HEAD", "--")
	if err != nil {
		return skill.Result{}, explain(err, "commit_failed")
	}
	fields := strings.Split(strings.TrimSpace(string(out)), "\x00")
	if len(fields) != 3 {
		return skill.Result{}, fmt.Errorf("read the new commit: unexpected output %q", out)
	}
	data := commitData{Commit: fields[0], Tree: fields[1], Parents: strings.Fields(fields[2]), Already: already}
	if data.Branch, err = r.branch(ctx); err != nil {
		return skill.Result{}, explain(err, "commit_failed")
	}
	if err := r.stat(ctx, &data); err != nil {
		return skill.Result{}, err
	}
	metadata, err := json.Marshal(map[string]any{"branch": data.Branch, "parents": data.Parents})
	if err != nil {
		return skill.Result{}, fmt.Errorf("describe the commit: %w", err)
	}
	return skill.Result{Data: data}, c.Emit(protocol.Artifact{Kind: "commit", Ref: data.Commit, Metadata: metadata})
}

// stat counts what the commit changed against its first parent.
func (r *repo) stat(ctx context.Context, data *commitData) error {
	args := []string{"diff-tree", "-r", "--no-commit-id", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv"}
	if len(data.Parents) == 0 {
		args = append(args, "--root", data.Commit, "--")
	} else {
		args = append(args, data.Parents[0], data.Commit, "--")
	}
	out, err := r.read(ctx, args...)
	if err != nil {
		return explain(err, "commit_failed")
	}
	for _, record := range split(out) {
		counts := strings.SplitN(record, "\t", 3)
		data.FilesChanged++
		for i, to := range []*int{&data.Additions, &data.Deletions} {
			if i < len(counts) {
				n, _ := strconv.Atoi(counts[i]) // "-" for binary files
				*to += n
			}
		}
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
