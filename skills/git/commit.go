package git

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

type commitInput struct {
	on
	Message     string            `json:"message"`
	MessageFile string            `json:"message_file"`
	All         bool              `json:"all"`
	Paths       []string          `json:"paths"`
	Author      *identity         `json:"author"`
	Committer   *identity         `json:"committer"`
	Date        string            `json:"date"`
	Amend       bool              `json:"amend"`
	AllowEmpty  bool              `json:"allow_empty"`
	Signoff     bool              `json:"signoff"`
	Trailers    map[string]string `json:"trailers"`
	ExpectHead  string            `json:"expect_head"`
}

type identity struct {
	Name  string `json:"name"`
	Email string `json:"email"`
}

type commitData struct {
	about
	engine.Committed
}

// Commit is git.commit.
func (f family) Commit(ctx context.Context, c *skill.Call, in commitInput) (*commitData, error) {
	if err := in.checkInput(c); err != nil {
		return nil, err
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	spec, err := r.commitSpec(ctx, c, in)
	if err != nil {
		return nil, err
	}
	var done engine.Committed
	commit := func() (err error) {
		done, err = r.Commit(ctx, spec)
		return err
	}
	if in.All {
		err = r.stageWith(commit)
	} else {
		err = commit()
	}
	if err != nil {
		return nil, err
	}
	metadata, err := json.Marshal(map[string]any{"branch": done.Branch, "parents": done.Parents})
	if err != nil {
		return nil, fmt.Errorf("describe the commit: %w", err)
	}
	return &commitData{about: r.describe(), Committed: done},
		c.Emit(protocol.Artifact{Kind: "commit", Ref: done.Commit, Metadata: metadata})
}

// checkInput validates the input alone and reads the message file.
func (in *commitInput) checkInput(c *skill.Call) error {
	if in.MessageFile != "" {
		if in.Message != "" {
			return skill.BadInput("/message_file", "cannot be used together with message")
		}
		data, err := c.Root.ReadFile(in.MessageFile, guard.MaxSmall)
		if err != nil {
			return err
		}
		in.Message = string(data)
	}
	switch in.Message = strings.TrimSpace(in.Message); {
	case in.Message == "" && !in.Amend:
		return skill.BadInput("/message", "is empty")
	case strings.ContainsRune(in.Message, 0):
		return skill.BadInput("/message", "contains a NUL byte")
	}
	for name, value := range in.Trailers {
		if !guard.IsTrailerName(name) || strings.ContainsAny(value, "\n\r\x00") {
			return skill.BadInput("/trailers/"+name, "is not a trailer: it is one line, and its name has letters, digits and dashes")
		}
	}
	if err := in.Author.checkFields("/author"); err != nil {
		return err
	}
	if err := in.Committer.checkFields("/committer"); err != nil {
		return err
	}
	if in.Date != "" {
		if _, err := time.Parse(time.RFC3339, in.Date); err != nil {
			return skill.BadInput("/date", "%q is not an RFC 3339 time such as 2026-01-31T12:00:00Z", in.Date)
		}
	}
	if in.ExpectHead != "" && !engine.IsCommitID(in.ExpectHead) {
		return skill.BadInput("/expect_head", "is not a full commit id")
	}
	if in.All && len(in.Paths) > 0 {
		return skill.BadInput("/paths", "cannot be used together with all")
	}
	return guard.CheckPaths(in.Paths)
}

func (id *identity) checkFields(pointer string) error {
	if id == nil {
		return nil
	}
	for _, f := range []struct{ name, value string }{{"name", id.Name}, {"email", id.Email}} {
		if strings.TrimSpace(f.value) == "" {
			return skill.BadInput(pointer+"/"+f.name, "is empty")
		}
		if strings.ContainsAny(f.value, "<>\n\r\x00") || len(f.value) > 256 {
			return skill.BadInput(pointer+"/"+f.name, "holds <, > or a control character, or is too long")
		}
	}
	return nil
}

// commitSpec fills in the author, the committer, the time and the whole message.
func (r *repo) commitSpec(ctx context.Context, c *skill.Call, in commitInput) (engine.CommitSpec, error) {
	spec := engine.CommitSpec{
		All: in.All, Paths: in.Paths, Amend: in.Amend, AllowEmpty: in.AllowEmpty, ExpectHead: in.ExpectHead,
	}
	if isOneLine(c.IdempotencyKey) {
		spec.Key = c.IdempotencyKey
	}
	when := time.Now().UTC()
	if in.Date != "" {
		when, _ = time.Parse(time.RFC3339, in.Date) // validated before
	}
	who := r.commitAs(c, in.Author)
	committer := who
	if in.Committer != nil {
		committer = *in.Committer
	}
	if in.Author != nil || !in.Amend {
		spec.Author = &engine.Signature{Name: who.Name, Email: who.Email, When: when}
	}
	spec.Committer = engine.Signature{Name: committer.Name, Email: committer.Email, When: when}
	message := in.Message
	if message == "" { // amend keeps the message
		var err error
		if message, err = r.headMessage(ctx); err != nil {
			return spec, err
		}
	}
	spec.Message = in.fullMessage(message, committer, spec.Key)
	return spec, nil
}

// headMessage returns the message of HEAD without the key of the call that made it.
func (r *repo) headMessage(ctx context.Context) (string, error) {
	log, err := r.Log(ctx, engine.LogSpec{Max: 1})
	if err != nil || len(log.Commits) == 0 {
		return "", err
	}
	message := log.Commits[0].Subject
	if body := log.Commits[0].Body; body != "" {
		message += "\n\n" + body
	}
	lines := slices.DeleteFunc(strings.Split(message, "\n"), func(l string) bool { return strings.HasPrefix(l, engine.KeyTrailer+": ") })
	return strings.Join(lines, "\n"), nil
}

// commitAs returns the author: the input's, else the configuration's, else Lattice.
func (r *repo) commitAs(c *skill.Call, asked *identity) identity {
	if asked != nil {
		return *asked
	}
	name, _ := r.config.Value("user", "", "name")
	email, _ := r.config.Value("user", "", "email")
	configured := &identity{Name: strings.TrimSpace(name), Email: strings.TrimSpace(email)}
	if configured.checkFields("") == nil {
		return *configured
	}
	c.Warn("default_identity", "no author was given and the repository names none: committed as Lattice <lattice@localhost>")
	return identity{Name: "Lattice", Email: "lattice@localhost"}
}

// fullMessage returns the message, cleaned as git commit does, with its trailers in one block at the end.
func (in *commitInput) fullMessage(message string, committer identity, key string) string {
	message = cleanMessage(message)
	var trailers []string
	for _, name := range slices.Sorted(maps.Keys(in.Trailers)) {
		trailers = append(trailers, name+": "+in.Trailers[name])
	}
	if in.Signoff {
		trailers = append(trailers, "Signed-off-by: "+committer.Name+" <"+committer.Email+">")
	}
	if key != "" {
		trailers = append(trailers, engine.KeyTrailer+": "+key)
	}
	if len(trailers) == 0 {
		return message + "\n"
	}
	gap := "\n\n"
	if i := strings.LastIndex(message, "\n\n"); i >= 0 {
		lines := strings.Split(message[i+2:], "\n")
		if !slices.ContainsFunc(lines, func(l string) bool { name, _, ok := strings.Cut(l, ": "); return !ok || !guard.IsTrailerName(name) }) {
			gap = "\n"
		}
	}
	return message + gap + strings.Join(trailers, "\n") + "\n"
}

// cleanMessage has the effect of --cleanup=whitespace: it removes trailing spaces, blank lines at both ends, and all but one
// of consecutive blank lines.
func cleanMessage(message string) string {
	var kept []string
	for line := range strings.SplitSeq(strings.ReplaceAll(message, "\r\n", "\n"), "\n") {
		line = strings.TrimRight(line, " \t\r")
		if line == "" && (len(kept) == 0 || kept[len(kept)-1] == "") {
			continue
		}
		kept = append(kept, line)
	}
	return strings.TrimRight(strings.Join(kept, "\n"), "\n")
}

func isOneLine(s string) bool { return s != "" && !strings.ContainsAny(s, "\n\r\x00") }
