package dashboard

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/api/route"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Leader is the leader that the page shows and uses.
type Leader interface {
	api.Travel
	api.Review
	api.PastFiles
	api.Actions
	api.Artifacts
	api.Audit
	api.Budgets
	api.Usage
	api.Proposals
	api.Intents
	api.Boards
	api.Loops
	api.Deliveries
	api.Flows
	Runs(ctx context.Context, which api.RunList) ([]api.RunView, error)
	Run(ctx context.Context, id string) (api.RunView, error)
	Program(ctx context.Context, id string) (json.RawMessage, error)
	Sprites(ctx context.Context) ([]sprites.Sprite, error)
	Entries(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error
	Outline(ctx context.Context, id string, after lattice.Seq, yield func(lattice.Entry) error) error
	Drive(ctx context.Context, id string, r api.DriveRequest) (api.RunView, error)
	Stop(ctx context.Context, id string) (api.RunView, error)
	Cancel(ctx context.Context, id, by string) (api.RunView, error)
	Decide(ctx context.Context, id string, d api.DecideRequest) (api.DecideReply, error)
}

// Visitor is the person who looks at the page.
type Visitor struct {
	Who  audit.Who
	Role route.Role
	CSRF string // sent back with each form
}

// Dashboard serves the page. It is safe for concurrent use.
type Dashboard struct {
	leader Leader
	mux    *http.ServeMux
}

//go:embed assets templates
var files embed.FS

// AssetRoot is the path below which the style and the script lie.
const AssetRoot = "/assets/"

// templates are the pages by name. They are parsed when the first page is served.
var templates = sync.OnceValue(func() map[string]*template.Template {
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	frame := template.Must(template.New("layout.html").Funcs(listFunctions()).ParseFS(files, layout))
	pages := map[string]*template.Template{}
	for _, name := range names {
		if name != layout {
			pages[strings.TrimSuffix(path.Base(name), ".html")] = template.Must(template.Must(frame.Clone()).ParseFS(files, name))
		}
	}
	return pages
})

const layout = "templates/layout.html"

// pageRoute is a page, or a form that a page sends.
type pageRoute struct {
	pattern string
	// operation is that of package api which the route stands for, as METHOD /path; its role is needed.
	operation string
	serve     func(v *visit) error
}

// visit is one request.
type visit struct {
	*Visitor
	http.ResponseWriter
	*http.Request
	ctx context.Context
}

type visitorKey struct{}

// roleOf returns the role that an operation of package api needs, the highest one for an operation that does not exist.
func roleOf(operation string) route.Role {
	method, path, _ := strings.Cut(operation, " ")
	if r, ok := route.Find(api.Routes(nil), method, api.Root+path); ok {
		return r.Role
	}
	return route.Owner
}

// May reports whether the visitor may use an operation, so that a page shows only forms that work.
func (v *Visitor) May(operation string) bool { return v != nil && v.Role.Includes(roleOf(operation)) }

// frame holds the content of the layout around each page.
type frame struct {
	*Visitor
	Title, Nav, Theme string
	Path              string        // of the page
	Waiting           int           // runs that wait for a person
	Live              string        // the path of server-sent events after which the page is read again
	Poll              time.Duration // how often the page is read again besides, 0 for never
	Now               time.Time
	Page              any
}

// showPage answers with a page.
func (d *Dashboard) showPage(v *visit, name string, f frame) error {
	open, err := d.leader.Runs(v.ctx, api.RunList{Open: true, Limit: maxOpen})
	if err != nil {
		return err
	}
	for _, r := range open {
		if len(r.Waits) > 0 {
			f.Waiting++
		}
	}
	f.Visitor = v.Visitor
	return d.write(v.ResponseWriter, v.Request, name, http.StatusOK, f)
}

// maxOpen bounds how many open runs a page looks at.
const maxOpen = 200

// write renders a page before it sends any of it.
func (d *Dashboard) write(w http.ResponseWriter, r *http.Request, name string, status int, f frame) error {
	f.Now, f.Path = time.Now(), r.URL.RequestURI()
	if c, err := r.Cookie("lattice_theme"); err == nil && (c.Value == "dark" || c.Value == "light") {
		f.Theme = c.Value
	}
	var out bytes.Buffer
	if err := templates()[name].Execute(&out, f); err != nil {
		return fmt.Errorf("draw page %s: %w", name, err)
	}
	w.Header().Set("Content-Security-Policy", contentPolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.Copy(w, &out) // the browser sees a cut page
	return nil
}

// showError answers with the page of an error.
func (d *Dashboard) showError(v *visit, err error) {
	p := exchange.AsFault(err)
	back := v.Request.URL.Path
	if i := strings.LastIndex(back, "/"); v.Request.Method == http.MethodPost && i > 0 {
		back = back[:i]
	}
	page := struct {
		*fault.Error
		Back string
	}{p, back}
	if err := d.write(v.ResponseWriter, v.Request, "error", exchange.StatusOf(p), frame{Visitor: v.Visitor, Title: "Error", Page: page}); err != nil {
		exchange.Fail(v.ResponseWriter, errors.Join(p, err))
	}
}

// goTo sends the browser to a page after a form.
func (v *visit) goTo(path string) error {
	http.Redirect(v.ResponseWriter, v.Request, path, http.StatusSeeOther)
	return nil
}
