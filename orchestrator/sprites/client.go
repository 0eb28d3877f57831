package sprites

import (
	"context"
	"io"
	"net/http"
	"time"
)

// Sprite is the sprite object of the API.
type Sprite struct {
	ID           string            `json:"id"`
	Name         string            `json:"name"`
	Organization string            `json:"organization"`
	URL          string            `json:"url"`
	Status       string            `json:"status"` // cold | warm | running
	Labels       []string          `json:"labels,omitempty"`
	CreatedAt    time.Time         `json:"created_at"`
	UpdatedAt    time.Time         `json:"updated_at"`
	Environment  map[string]string `json:"environment,omitempty"`
	// Of the embedded host only.
	Isolation     string `json:"isolation,omitempty"`
	WorkspacePath string `json:"workspace_path,omitempty"` // host path of /workspace for "look into it" hints
}

// Create is the body of POST /v1/sprites.
type Create struct {
	Name        string            `json:"name"`
	Environment map[string]string `json:"environment,omitempty"`
	Labels      []string          `json:"labels,omitempty"`
}

// Exec describes one command. A nil Stdin is an empty one.
type Exec struct {
	Cmd                   []string
	Env                   []string // KEY=VALUE, on top of the sprite's own
	Dir                   string
	TTY                   bool
	Rows, Cols            int
	Stdin                 io.Reader
	Stdout, Stderr        io.Writer // Stderr unused with TTY
	MaxRunAfterDisconnect time.Duration
	Resize                <-chan Size     // TTY only, may be nil
	Signals               <-chan string   // "INT", "TERM" … forwarded, may be nil
	OnSession             func(id string) // called with the session id, may be nil
}

// Size of a terminal.
type Size struct{ Rows, Cols int }

// Checkpoint is one checkpoint of a sprite.
type Checkpoint struct {
	ID         string    `json:"id"`
	CreateTime time.Time `json:"create_time"`
	Comment    string    `json:"comment,omitempty"`
	IsAuto     bool      `json:"is_auto,omitempty"`
	Durable    bool      `json:"durable,omitempty"`
}

// FileInfo is one entry of a directory listing.
type FileInfo struct {
	Name    string    `json:"name"`
	Path    string    `json:"path"`
	Type    string    `json:"type"` // file | directory | symlink
	Size    int64     `json:"size"`
	Mode    string    `json:"mode"`
	ModTime time.Time `json:"modTime"`
	IsDir   bool      `json:"isDir"`
}

// Client speaks the Sprites API, embedded or remote.
type Client struct{}

// New makes a client for base ("http://127.0.0.1:1234", "https://api.sprites.dev"). hc may dial a unix socket.
func New(base, token string, hc *http.Client) *Client { return &Client{} }

func (c *Client) Create(ctx context.Context, in Create) (Sprite, error)        { return Sprite{}, nil }
func (c *Client) Get(ctx context.Context, name string) (Sprite, error)         { return Sprite{}, nil }
func (c *Client) List(ctx context.Context, prefix string) ([]Sprite, error)    { return nil, nil }
func (c *Client) Delete(ctx context.Context, name string) error                { return nil }
func (c *Client) Exec(ctx context.Context, name string, e Exec) (int, error)   { return 0, nil }
func (c *Client) Kill(ctx context.Context, name, session, signal string) error { return nil }
func (c *Client) ReadFile(ctx context.Context, name, path string, limit int64) ([]byte, error) {
	return nil, nil
}
func (c *Client) ReadFrom(ctx context.Context, name, path string, offset int64) (io.ReadCloser, error) {
	return nil, nil
}
func (c *Client) WriteFile(ctx context.Context, name, path string, r io.Reader, mode uint32) error {
	return nil
}
func (c *Client) ListDir(ctx context.Context, name, path string) ([]FileInfo, error) { return nil, nil }
func (c *Client) Remove(ctx context.Context, name, path string, recursive bool) error {
	return nil
}
func (c *Client) Checkpoint(ctx context.Context, name, comment string) (Checkpoint, error) {
	return Checkpoint{}, nil
}
func (c *Client) Checkpoints(ctx context.Context, name string) ([]Checkpoint, error) { return nil, nil }
func (c *Client) Restore(ctx context.Context, name, id string) error                 { return nil }
