package travel

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/attest"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// verifyFlags are the flags of lattice verify.
type verifyFlags struct {
	key                   bool
	publicKey, from, repo string
}

func newVerifyCmd(env *setup.Env) *cobra.Command {
	var flags verifyFlags
	cmd := &cobra.Command{
		Use:   "verify [RUN|COMMIT]",
		Short: "Check the signed statements about verified commits",
		Long: `Check the statements of a run, or those about a commit. A step VERIFY runs the declared commands on a clean clone of a commit, in
a fork of the sprite and with the protected test files of the base commit. lattice writes the result into the journal, as an
in-toto statement in a DSSE envelope that the key of this installation signs. This command reads the journal, checks that none of
its facts was changed, and checks each statement. It runs nothing.

--key prints the public key, with which other programs can check the envelopes that --json prints. --from reads a journal as
lattice events --journal prints it; with --public-key this needs nothing else of this installation.

--repo reads the statements about a commit, HEAD by default, from the git note in refs/notes/lattice of a local repository, where a
push leaves them if the policy says notes = true for it. It contacts nothing: fetch the notes before with
git fetch origin refs/notes/lattice:refs/notes/lattice. The last statement that the key signed decides.

The last statement decides. Exit codes: 0 green, 1 red, forged or changed, 2 bad input, 3 not found.`,
		Example: "  lattice verify run_0123\n  lattice verify 4f2a9c1 --json\n  lattice verify --key >lattice.pem\n  lattice verify --from run.jsonl --public-key lattice.pem\n  lattice verify v1.2 --repo . --public-key lattice.pem",
		Args:    cli.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if flags.key {
				if len(list) > 0 || flags.from != "" || flags.publicKey != "" || flags.repo != "" {
					return cli.UsageErrorf("--key takes no run, no --from, no --repo and no --public-key")
				}
				return printPublicKey(env)
			}
			if flags.repo != "" && flags.from != "" {
				return cli.UsageErrorf("--repo and --from exclude each other")
			}
			key, err := flags.readKey(c.Context(), env)
			if err != nil {
				return err
			}
			if flags.repo != "" {
				return verifyNote(c.Context(), env, flags.repo, cmp.Or(cli.Optional(list), "HEAD"), key)
			}
			return verify(c.Context(), env, cli.Optional(list), flags.from, key)
		},
		ValidArgsFunction: complete.Runs(env),
	}
	cmd.Flags().BoolVar(&flags.key, "key", false, "print the public key of this installation as PEM")
	cmd.Flags().StringVar(&flags.publicKey, "public-key", "", "check with the public key in `FILE` instead; - is standard input")
	cmd.Flags().StringVar(&flags.repo, "repo", "", "check the note about the commit in the git repository at `PATH`")
	cmd.Flags().StringVar(&flags.from, "from", "", "check the journal in `FILE` instead of the stored one; - is standard input")
	return cmd
}

func (f verifyFlags) readKey(ctx context.Context, env *setup.Env) (ed25519.PublicKey, error) {
	if f.publicKey == "" {
		if _, err := os.Stat(home.Home(env.Home).SigningKey()); f.repo != "" && errors.Is(err, fs.ErrNotExist) {
			return nil, cli.UsageErrorf("this installation has signed nothing: --public-key is required; lattice verify --key prints it where the commit was verified")
		}
		return publicKey(env)
	}
	data, err := env.ReadNamed(ctx, f.publicKey, 1<<20)
	if err != nil {
		return nil, fault.BadInput("key_unreadable", "read the public key: %v", err)
	}
	key, err := attest.ParsePublic(data)
	if err != nil {
		return nil, fault.BadInput("key_unreadable", "read the public key %s: %v", f.publicKey, err).WithHint("lattice verify --key prints one")
	}
	return key, nil
}

// publicKey returns the public key of the installation, whose key is made at first use.
func publicKey(env *setup.Env) (ed25519.PublicKey, error) {
	key, err := attest.LoadKey(home.Home(env.Home).SigningKey())
	if err != nil {
		return nil, fault.Failed("key_unreadable", "%v", err).WithHint("--public-key FILE checks with another key")
	}
	public, _ := key.Public().(ed25519.PublicKey)
	return public, nil
}

func printPublicKey(env *setup.Env) error {
	key, err := publicKey(env)
	if err != nil {
		return err
	}
	text, err := attest.FormatPublic(key)
	if err != nil {
		return err
	}
	if env.JSON {
		return env.PrintJSON(map[string]string{"keyid": attest.KeyID(key), "public_key": string(text)})
	}
	_, err = env.Out.Write(text)
	return err
}

var commitPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{7,64}$`) })

// verification is what lattice verify --json prints.
type verification struct {
	OK         bool             `json:"ok"`
	RunID      string           `json:"run_id"`
	Commit     string           `json:"commit"`
	Verdict    string           `json:"verdict"` // green, red or forged
	Problem    string           `json:"problem,omitempty"`
	Statements []attest.Checked `json:"statements"`

	note bool // the statements are those of a git note
}

func verify(ctx context.Context, env *setup.Env, name, from string, key ed25519.PublicKey) error {
	commit := ""
	if commitPattern().MatchString(name) {
		commit = name
	}
	journal, err := verifiedJournal(ctx, env, name, commit, from)
	if err != nil {
		return err
	}
	out := verification{Statements: []attest.Checked{}}
	if len(journal) > 0 {
		out.RunID = journal[0].Run
	}
	all, err := attest.Check(journal, key)
	if err != nil {
		out.Verdict, out.Problem = "forged", "the journal was changed: "+err.Error()
		return printVerification(env, out)
	}
	for _, c := range all {
		if commit == "" || c.Problem != "" || strings.HasPrefix(c.Predicate.Commit, commit) {
			out.Statements = append(out.Statements, c)
		}
	}
	if len(out.Statements) == 0 {
		return fault.NotFound("statement_not_found", "%s holds no statement about a verified commit", cli.Clean(out.RunID)).WithHint("a step VERIFY of a plan makes one: lattice flow steps")
	}
	last := out.Statements[len(out.Statements)-1]
	out.Commit, out.Verdict, out.Problem, out.OK = last.Predicate.Commit, string(last.Predicate.Verdict), last.Problem, last.Green()
	for _, c := range out.Statements {
		if c.Problem != "" {
			out.OK, out.Verdict, out.Problem = false, "forged", fmt.Sprintf("the statement at entry %d is not valid: %s", c.Seq, c.Problem)
		}
	}
	return printVerification(env, out)
}

// verifiedJournal returns the facts of a run: of the one that is named, or of the last one that verified the commit.
func verifiedJournal(ctx context.Context, env *setup.Env, name, commit, from string) ([]lattice.Entry, error) {
	if from != "" {
		if name != "" && commit == "" {
			return nil, cli.UsageErrorf("--from holds one run; name a commit or nothing")
		}
		data, err := env.ReadNamed(ctx, from, maxJournal)
		if err != nil {
			return nil, fault.BadInput("journal_unreadable", "read journal: %v", err)
		}
		return readJournal(data)
	}
	conn, err := connect.Dial(ctx, env, connect.Options{})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if commit != "" {
		if name, err = findVerified(ctx, conn, commit); err != nil {
			return nil, err
		}
	}
	view, err := conn.Run(ctx, name)
	if err != nil {
		return nil, err
	}
	var journal []lattice.Entry
	err = conn.Entries(ctx, view.RunID, 0, func(e lattice.Entry) error {
		if e.Kind == lattice.EntryFact {
			journal = append(journal, e)
		}
		return nil
	})
	return journal, err
}

// findVerified returns the last run that verified a commit, which may be abbreviated.
func findVerified(ctx context.Context, conn *connect.Conn, commit string) (string, error) {
	run, whole := "", ""
	err := conn.AuditEntries(ctx, "", 0, func(e audit.Entry) error {
		id, ok := strings.CutPrefix(e.Subject, audit.CommitOf(""))
		if e.Kind != audit.Verified || !ok || !strings.HasPrefix(id, commit) {
			return nil
		}
		if whole != "" && whole != id {
			return fault.BadInput("bad_input", "several verified commits begin with %s", commit).WithHint("write more of the id")
		}
		var body struct {
			RunID string `json:"run_id"`
		}
		err := json.Unmarshal(e.Body, &body)
		whole, run = id, body.RunID
		return err
	})
	if err == nil && run == "" {
		err = fault.NotFound("statement_not_found", "no run verified the commit %s", commit).WithHint("lattice audit ls lists verified commits")
	}
	return run, err
}

func printVerification(env *setup.Env, out verification) error {
	if env.JSON {
		if err := env.PrintJSON(out); err != nil {
			return err
		}
	} else if err := printStatements(env, out); err != nil {
		return err
	}
	if out.OK {
		return nil
	}
	return &cli.ExitError{Code: protocol.ExitFailed}
}

func printStatements(env *setup.Env, out verification) error {
	for _, c := range out.Statements {
		p := c.Predicate
		text := fmt.Sprintf("%-5s  commit %.12s  tree %.12s  base %.12s  %s#%d  %s, %d ms", p.Verdict, p.Commit, p.Tree, p.Base, p.Node, p.Visit, cli.Count(len(p.Commands), "command", "commands"), p.DurationMS)
		if c.Problem != "" {
			text = fmt.Sprintf("forged entry %d: %s", c.Seq, c.Problem)
			if out.note {
				text = fmt.Sprintf("-      line %d: %s", c.Seq, c.Problem)
			}
		}
		lines := []string{text}
		if p.Reason != "" {
			lines = append(lines, "       "+p.Reason)
		}
		if len(p.Restored) > 0 {
			lines = append(lines, "       protected files that the commit had changed: "+strings.Join(p.Restored, " "))
		}
		for _, line := range lines {
			if _, err := fmt.Fprintln(env.Out, cli.Clean(line)); err != nil {
				return err
			}
		}
	}
	if len(out.Statements) == 0 {
		_, err := fmt.Fprintln(env.Out, cli.Clean(out.Problem))
		return err
	}
	return nil
}
