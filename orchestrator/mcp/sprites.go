package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

const (
	// maxOutput bounds each output of a command in a result, and maxFile the part of a file: a model reads them.
	maxOutput, maxFile = 32 << 10, 64 << 10
	// defaultTimeout and maxTimeout bound a command, in seconds.
	defaultTimeout, maxTimeout = 120, 3600
)

type noInput struct{}

type spriteInput struct {
	Sprite string `json:"sprite" jsonschema:"the name of the sprite"`
}

type createInput struct {
	Sprite string   `json:"sprite" jsonschema:"the name of the new sprite: lower-case letters, digits and hyphens"`
	Image  string   `json:"image,omitempty" jsonschema:"an image that the host has; by default that of the user's settings"`
	Labels []string `json:"labels,omitempty" jsonschema:"labels of the sprite"`
}

type forkInput struct {
	Sprite     string `json:"sprite" jsonschema:"the name of the sprite to copy"`
	NewSprite  string `json:"new_sprite" jsonschema:"the name of the copy"`
	Checkpoint string `json:"checkpoint,omitempty" jsonschema:"the checkpoint whose files the copy has; by default the present files"`
}

type checkpointInput struct {
	Sprite  string `json:"sprite" jsonschema:"the name of the sprite"`
	Comment string `json:"comment,omitempty" jsonschema:"a comment, shown in the list of checkpoints"`
}

type restoreInput struct {
	Sprite     string `json:"sprite" jsonschema:"the name of the sprite"`
	Checkpoint string `json:"checkpoint" jsonschema:"the id of the checkpoint, such as v1"`
}

type execInput struct {
	Sprite   string            `json:"sprite" jsonschema:"the name of the sprite"`
	Command  string            `json:"command" jsonschema:"the command line, which sh runs"`
	Dir      string            `json:"dir,omitempty" jsonschema:"the working directory; by default /workspace"`
	Env      map[string]string `json:"env,omitempty" jsonschema:"variables of the command, in addition to the sprite's own"`
	Stdin    string            `json:"stdin,omitempty" jsonschema:"the standard input of the command"`
	TimeoutS int               `json:"timeout_s,omitempty" jsonschema:"seconds after which the command is ended; by default 120, at most 3600"`
}

// execOutput is the result of a command.
type execOutput struct {
	ExitCode int    `json:"exit_code"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	// Dropped is the number of bytes that were left out at the beginning of the outputs.
	Dropped int64 `json:"dropped_bytes,omitempty"`
}

func (s *Server) addSpriteTools() {
	add(s, "sprite_list", "List the sprites (sandboxes).", hints{reads: true}, func(ctx context.Context, req *sdk.CallToolRequest, _ noInput) (any, error) {
		return withSprites(ctx, s, req.Session, func(c *sprites.Client) ([]sprites.Sprite, error) { return c.List(ctx, "") })
	})
	add(s, "sprite_create", "Create a sprite: a sandbox with a file system that persists.", hints{}, func(ctx context.Context, req *sdk.CallToolRequest, in createInput) (any, error) {
		return withSprites(ctx, s, req.Session, func(c *sprites.Client) (created sprites.Sprite, err error) {
			if in.Image != "" && equip.LooksLikePath(in.Image) {
				return created, fault.Denied("image_is_path", "a client names images that the host has, not files").WithHint("lattice image import %s --name NAME", in.Image)
			}
			image, err := equip.FindStartImage(ctx, s.env, c, in.Image)
			if err != nil {
				return created, err
			}
			return c.Create(ctx, sprites.Create{Name: in.Sprite, Labels: in.Labels, Image: image})
		})
	})
	add(s, "sprite_fork", "Create a sprite with the files of another one.", hints{}, func(ctx context.Context, req *sdk.CallToolRequest, in forkInput) (any, error) {
		return withSprites(ctx, s, req.Session, func(c *sprites.Client) (sprites.Sprite, error) {
			at := in.Checkpoint
			if at == "" {
				at = sprites.Current
			}
			return c.Fork(ctx, in.Sprite, at, in.NewSprite)
		})
	})
	add(s, "sprite_checkpoint", "Save the files of a sprite, and return the id of the checkpoint.", hints{}, func(ctx context.Context, req *sdk.CallToolRequest, in checkpointInput) (any, error) {
		return withSprites(ctx, s, req.Session, func(c *sprites.Client) (sprites.Checkpoint, error) { return c.Checkpoint(ctx, in.Sprite, in.Comment) })
	})
	add(s, "sprite_checkpoints", "List the checkpoints of a sprite.", hints{reads: true}, func(ctx context.Context, req *sdk.CallToolRequest, in spriteInput) (any, error) {
		return withSprites(ctx, s, req.Session, func(c *sprites.Client) ([]sprites.Checkpoint, error) { return c.Checkpoints(ctx, in.Sprite) })
	})
	add(s, "sprite_restore", "Restore the files of a sprite to a checkpoint. Its processes end, and later changes are lost.", hints{destroys: true, repeats: true}, func(ctx context.Context, req *sdk.CallToolRequest, in restoreInput) (any, error) {
		return withSprites(ctx, s, req.Session, func(c *sprites.Client) (map[string]string, error) {
			return map[string]string{"sprite": in.Sprite, "restored": in.Checkpoint}, c.Restore(ctx, in.Sprite, in.Checkpoint)
		})
	})
	add(s, "sprite_remove", "Remove a sprite with its files and checkpoints.", hints{destroys: true, repeats: true}, func(ctx context.Context, req *sdk.CallToolRequest, in spriteInput) (any, error) {
		return withSprites(ctx, s, req.Session, func(c *sprites.Client) (map[string]string, error) {
			return map[string]string{"removed": in.Sprite}, c.Delete(ctx, in.Sprite)
		})
	})
	add(s, "sprite_exec", "Run a command in a sprite, and return its exit code and the end of its outputs.", hints{destroys: true}, func(ctx context.Context, req *sdk.CallToolRequest, in execInput) (any, error) {
		return withSprites(ctx, s, req.Session, func(c *sprites.Client) (execOutput, error) { return runCommand(ctx, c, in) })
	})
}

// runCommand runs a command until it ends or its time is over.
func runCommand(ctx context.Context, c *sprites.Client, in execInput) (execOutput, error) {
	limit := in.TimeoutS
	if limit == 0 {
		limit = defaultTimeout
	}
	if limit < 0 || limit > maxTimeout {
		return execOutput{}, fault.BadInput("bad_input", "timeout_s must be from 1 to %d", maxTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(limit)*time.Second)
	defer cancel()
	var stdout, stderr tail
	e := sprites.Exec{Cmd: []string{"sh", "-c", in.Command}, Dir: in.Dir, Stdout: &stdout, Stderr: &stderr, MaxRunAfterDisconnect: time.Second}
	if in.Dir == "" {
		e.Dir = "/workspace"
	}
	if in.Stdin != "" {
		e.Stdin = strings.NewReader(in.Stdin)
	}
	for name, value := range in.Env {
		e.Env = append(e.Env, name+"="+value)
	}
	code, err := c.Exec(ctx, in.Sprite, e)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		p := fault.Timeout("timeout", "the command did not end within %d seconds and was ended; its last output is: %s", limit, stdout.text()+stderr.text())
		return execOutput{}, p.WithHint("pass a larger timeout_s, or start the command in the background")
	}
	return execOutput{ExitCode: code, Stdout: stdout.text(), Stderr: stderr.text(), Dropped: stdout.dropped + stderr.dropped}, err
}

// tail keeps the last maxOutput bytes that are written to it. One goroutine writes at a time.
type tail struct {
	kept    []byte
	dropped int64
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - maxOutput; over > maxOutput {
		t.cut(over)
	}
	return len(p), nil
}

func (t *tail) cut(n int) {
	t.dropped += int64(n)
	t.kept = append(t.kept[:0], t.kept[n:]...)
}

// text returns the end of the output as valid UTF-8.
func (t *tail) text() string {
	if over := len(t.kept) - maxOutput; over > 0 {
		t.cut(over)
	}
	return string(bytes.ToValidUTF8(t.kept, []byte("�")))
}

type listInput struct {
	Sprite string `json:"sprite" jsonschema:"the name of the sprite"`
	Path   string `json:"path,omitempty" jsonschema:"an absolute path; by default /workspace"`
}

type readInput struct {
	Sprite string `json:"sprite" jsonschema:"the name of the sprite"`
	Path   string `json:"path" jsonschema:"the absolute path of the file"`
	Offset int64  `json:"offset,omitempty" jsonschema:"the position of the first byte"`
}

// readOutput is a part of a file: as text, or as base64 if it is not UTF-8.
type readOutput struct {
	Text   string `json:"text,omitempty"`
	Base64 string `json:"base64,omitempty"`
	// Next is the offset of the rest, absent if there is none.
	Next int64 `json:"next_offset,omitempty"`
}

type writeInput struct {
	Sprite     string `json:"sprite" jsonschema:"the name of the sprite"`
	Path       string `json:"path" jsonschema:"the absolute path of the file; its folder is created"`
	Content    string `json:"content" jsonschema:"the whole content of the file"`
	Executable bool   `json:"executable,omitempty" jsonschema:"make the file executable"`
}

func (s *Server) addFileTools() {
	add(s, "file_list", "List a folder of a sprite.", hints{reads: true}, func(ctx context.Context, req *sdk.CallToolRequest, in listInput) (any, error) {
		return withSprites(ctx, s, req.Session, func(c *sprites.Client) ([]sprites.FileInfo, error) {
			dir := in.Path
			if dir == "" {
				dir = "/workspace"
			}
			return c.Files().List(ctx, in.Sprite, dir)
		})
	})
	add(s, "file_read", "Read a file of a sprite, at most 64 KiB at a time.", hints{reads: true}, func(ctx context.Context, req *sdk.CallToolRequest, in readInput) (any, error) {
		return withSprites(ctx, s, req.Session, func(c *sprites.Client) (readOutput, error) { return readFile(ctx, c, in) })
	})
	add(s, "file_write", "Replace a file of a sprite, or create it.", hints{destroys: true, repeats: true}, func(ctx context.Context, req *sdk.CallToolRequest, in writeInput) (any, error) {
		return withSprites(ctx, s, req.Session, func(c *sprites.Client) (map[string]any, error) {
			mode := uint32(0o644)
			if in.Executable {
				mode = 0o755
			}
			return map[string]any{"path": in.Path, "bytes": len(in.Content)}, c.WriteFile(ctx, in.Sprite, in.Path, strings.NewReader(in.Content), mode)
		})
	})
}

// readFile reads a part of a file.
func readFile(ctx context.Context, c *sprites.Client, in readInput) (readOutput, error) {
	return readParts(in.Offset, func(offset int64) (io.ReadCloser, error) { return c.ReadFrom(ctx, in.Sprite, in.Path, offset) })
}

// readParts reads a part of a stream. A character at the end of the part that is not complete belongs to the rest.
func readParts(offset int64, open func(offset int64) (io.ReadCloser, error)) (out readOutput, err error) {
	if offset < 0 {
		return out, fault.BadInput("bad_input", "offset must not be negative")
	}
	r, err := open(offset)
	if err != nil {
		return out, err
	}
	defer r.Close()
	part, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return out, err
	}
	if len(part) > maxFile {
		part = part[:maxFile]
		part = part[:len(part)-incomplete(part)]
		out.Next = offset + int64(len(part))
	}
	if utf8.Valid(part) {
		out.Text = string(part)
	} else {
		out.Base64 = base64.StdEncoding.EncodeToString(part)
	}
	return out, nil
}

// incomplete returns the number of bytes at the end that begin a character and do not complete it.
func incomplete(part []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(part); n++ {
		if b := part[len(part)-n:]; utf8.RuneStart(b[0]) {
			if utf8.FullRune(b) {
				return 0
			}
			return n
		}
	}
	return 0
}
