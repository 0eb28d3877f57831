package web

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/skills/extra"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/text"
)

const (
	maxPages        = 8
	maxBytes        = 4 << 20
	defaultText     = 80_000 // of all pages together, in bytes
	maxText         = 400_000
	maxStored       = 4 * maxBytes // the text of a page in another encoding can be longer than its body
	folder          = "pages"
	maxTitle        = 200
	maxURL          = 2048
	maxProblemBytes = 500
)

type fetcher struct{ extra.File }

type fetchInput struct {
	URLs      []string `json:"urls"`
	TextBytes int      `json:"text_bytes"`
}

// storedPage is a page in the workspace.
type storedPage struct {
	Number    int    `json:"number"`
	URL       string `json:"url"`
	FinalURL  string `json:"final_url"`
	Title     string `json:"title"`
	Path      string `json:"path"`
	SHA256    string `json:"sha256"`
	Text      string `json:"text"`
	Truncated bool   `json:"truncated"`
}

// failure is a page that could not be read.
type failure struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

type fetchOutput struct {
	Pages  []storedPage `json:"pages"`
	Failed []failure    `json:"failed"`
}

// fetchPages is web.fetch. A page that cannot be read fails alone.
func (f fetcher) fetchPages(ctx context.Context, c *skill.Call, in fetchInput) (*fetchOutput, error) {
	if in.TextBytes = cmp.Or(in.TextBytes, defaultText); in.TextBytes < 1 || in.TextBytes > maxText {
		return nil, skill.BadInput("/text_bytes", "is not between 1 and %d", maxText)
	}
	var urls []string
	for _, url := range in.URLs {
		if !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	if len(urls) == 0 || len(urls) > maxPages {
		return nil, skill.BadInput("/urls", "has %d entries, 1 to %d are allowed", len(urls), maxPages)
	}
	out := fetchOutput{Pages: []storedPage{}, Failed: []failure{}}
	for _, url := range urls {
		c.Progress("fetch "+text.Head(text.Line(url), maxTitle), nil)
		page, err := f.fetchOne(ctx, c, url)
		if err != nil {
			return nil, err
		}
		if page.Problem != "" {
			out.Failed = append(out.Failed, failure{url, text.Head(text.Line(page.Problem), maxProblemBytes)})
			continue
		}
		stored, err := storePage(c, url, page)
		if err != nil {
			return nil, err
		}
		stored.Number = len(out.Pages) + 1
		out.Pages = append(out.Pages, stored)
	}
	for i := range out.Pages {
		p := &out.Pages[i]
		head := text.Head(p.Text, in.TextBytes/len(out.Pages))
		p.Text, p.Truncated = head, head != p.Text
	}
	return &out, nil
}

func (f fetcher) fetchOne(ctx context.Context, c *skill.Call, url string) (p Page, err error) {
	if len(url) > maxURL {
		return Page{Problem: fmt.Sprintf("the address has more than %d bytes", maxURL)}, nil
	}
	stdin, err := json.Marshal(Request{url, maxBytes, c.Env})
	if err != nil {
		return p, fmt.Errorf("fetch %s: %w", url, err)
	}
	var stdout bytes.Buffer
	if err := f.Run(ctx, "web.fetch", Command, stdin, &stdout); err != nil {
		return p, err
	}
	if err := json.Unmarshal(stdout.Bytes(), &p); err != nil {
		return p, fmt.Errorf("read the page %s: %w", url, err)
	}
	return p, nil
}

// storePage writes the text of a page to the workspace and declares it as an artifact.
func storePage(c *skill.Call, url string, p Page) (storedPage, error) {
	sum := sha256.Sum256([]byte(p.Text))
	digest := hex.EncodeToString(sum[:])
	s := storedPage{URL: url, FinalURL: p.FinalURL, Title: text.Head(text.Line(p.Title), maxTitle), Path: folder + "/" + digest[:16] + ".txt", SHA256: digest, Text: p.Text}
	if err := c.Root.MkdirAll(folder); err != nil {
		return s, err
	}
	if err := c.Root.WriteFile(s.Path, []byte(p.Text), 0o644); err != nil {
		return s, err
	}
	about, err := json.Marshal(map[string]any{"url": url, "final_url": p.FinalURL, "sha256": digest, "body_sha256": p.SHA256, "bytes": len(p.Text)})
	if err != nil {
		return s, err
	}
	return s, c.Emit(protocol.Artifact{Kind: "file", Ref: s.Path, Metadata: about})
}
