package dashboard

import (
	"bytes"
	"cmp"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/api/exchange"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func (d *Dashboard) fileRoutes() []pageRoute {
	return []pageRoute{
		{"GET /runs/{id}/files", "GET /runs/{id}/files", d.showFolder},
		{"GET /runs/{id}/file", "GET /runs/{id}/file", d.showFile},
		{"GET /runs/{id}/shell", "GET /runs/{id}/shell", d.showShell},
	}
}

// maxShownFile bounds the bytes of a file that a page shows.
const maxShownFile = 256 << 10

// filePage is a folder or a file of a run at a moment, and the moments to choose from.
type filePage struct {
	At      string
	Moments []stop
	Path    string
	Above   []place // the folders around it, the outermost first
	Entries []fileRow
	Total   int
	Before  string // the address of the entries before, "" if there are none
	After   string
	File    bool   // it is a file
	Text    string // of a file
	Size    int
	Binary  bool
	Raw     string // the address of the file's bytes
	Problem *fault.Error
}

// place is a folder with its address.
type place struct{ Name, Link string }

// fileRow is an entry of a folder, with its address if the page shows it.
type fileRow struct {
	sprites.FileInfo
	Link string
}

// fileLink returns the address of a path of a run at a moment, where view is files for a folder and file for a file.
func fileLink(root, view, at, file string) string {
	return root + "/" + view + "?" + url.Values{"at": {at}, "path": {file}}.Encode()
}

// placeFile returns the page of a path, with the folders around it.
func placeFile(root, at, file string) filePage {
	p := filePage{At: at, Path: path.Clean("/" + file), Raw: fileLink(api.Root+root, "file", at, file)}
	p.Above = append(p.Above, place{"/", fileLink(root, "files", at, "/")})
	for i, c := range p.Path {
		if c == '/' && i > 0 {
			p.Above = append(p.Above, place{path.Base(p.Path[:i]), fileLink(root, "files", at, p.Path[:i])})
		}
	}
	return p
}

// showFiles answers with the page of a folder or a file, which fill reads. What cannot be read is explained on the page, so that
// another moment can be chosen.
func (d *Dashboard) showFiles(v *visit, fill func(id string, p *filePage) error) error {
	run, err := d.loadRun(v, "files")
	if err != nil {
		return err
	}
	q := v.URL.Query()
	body := placeFile("/runs/"+run.RunID, q.Get("at"), cmp.Or(q.Get("path"), "/workspace"))
	if body.Moments, err = d.listStops(v.ctx, run.RunID); err != nil {
		return err
	}
	if err := fill(run.RunID, &body); err != nil {
		body.Problem = exchange.AsFault(err)
	}
	run.Body = body
	return d.showRun(v, run)
}

// rowsOfFolder is the number of entries of a folder on one page.
const rowsOfFolder = 200

func (d *Dashboard) showFolder(v *visit) error {
	return d.showFiles(v, func(id string, p *filePage) error {
		from, err := strconv.Atoi(cmp.Or(v.URL.Query().Get("from"), "0"))
		if err != nil || from < 0 {
			return fault.BadInput("bad_request", "from is the number of an entry")
		}
		folder, err := d.leader.FolderAt(v.ctx, id, p.At, p.Path)
		if err != nil {
			return err
		}
		root, here := "/runs/"+id, fileLink("/runs/"+id, "files", p.At, p.Path)
		from = min(from, len(folder.Entries))
		to := min(from+rowsOfFolder, len(folder.Entries))
		if from > 0 {
			p.Before = fmt.Sprintf("%s&from=%d", here, max(0, from-rowsOfFolder))
		}
		if to < len(folder.Entries) {
			p.After = fmt.Sprintf("%s&from=%d", here, to)
		}
		p.Total = folder.Total
		for _, e := range folder.Entries[from:to] {
			row := fileRow{FileInfo: e}
			switch {
			case e.IsDir:
				row.Link = fileLink(root, "files", p.At, e.Path)
			case e.Type == "file":
				row.Link = fileLink(root, "file", p.At, e.Path)
			}
			p.Entries = append(p.Entries, row)
		}
		return nil
	})
}

func (d *Dashboard) showFile(v *visit) error {
	return d.showFiles(v, func(id string, p *filePage) error {
		content, err := d.leader.FileAt(v.ctx, id, p.At, p.Path)
		if err != nil {
			return err
		}
		p.File, p.Size, p.Binary = true, len(content), bytes.IndexByte(content, 0) >= 0
		if !p.Binary {
			p.Text = visibleText(strings.ToValidUTF8(string(content[:min(len(content), maxShownFile)]), "�"))
		}
		return nil
	})
}

// showShell answers with the page of a terminal, whose script opens the shell.
func (d *Dashboard) showShell(v *visit) error {
	run, err := d.loadRun(v, "shell")
	if err != nil {
		return err
	}
	at := v.URL.Query().Get("at")
	run.Body = struct{ At, Socket string }{at, api.Root + "/runs/" + run.RunID + "/shell?" + url.Values{"at": {at}}.Encode()}
	return d.showRun(v, run)
}
