// Package stories runs a very small real language model, for tests: a transformer of 260,000 weights that was trained on
// children's stories, in the format of llama2.c. It cannot hold a schema, and therefore serves here: it fails as
// real models do. Scored, it can choose among given texts.
//
// Start with Load. The weights are no part of the source tree.
package stories

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// Model holds weights and vocabulary. It is safe for concurrent use.
type Model struct {
	config
	embed                                  []float32
	attNorm, wq, wk, wv, wo                []float32 // of all layers, as are the next
	ffnNorm, w1, w2, w3, lastNorm, outputs []float32

	words  []string
	scores []float32
	ids    map[string]int
}

type config struct {
	Dim, Hidden, Layers, Heads, KVHeads, Vocab, Context int32
}

func (c config) headSize() int { return int(c.Dim / c.Heads) }
func (c config) kvSize() int   { return c.headSize() * int(c.KVHeads) }

// Load reads stories260K.bin and tok512.bin from a folder.
func Load(dir string) (*Model, error) {
	data, err := os.ReadFile(filepath.Join(dir, "stories260K.bin"))
	if err != nil {
		return nil, err
	}
	m := &Model{}
	r := bytes.NewReader(data)
	if err := binary.Read(r, binary.LittleEndian, &m.config); err != nil {
		return nil, fmt.Errorf("read the model's head: %w", err)
	}
	shared := m.Vocab > 0
	m.Vocab = max(m.Vocab, -m.Vocab)
	if m.Dim < 1 || m.Dim > 4096 || m.Layers > 64 || m.Heads < 1 || m.KVHeads < 1 || m.Vocab > 1<<16 || m.Context > 1<<14 || int(m.Dim)*int(m.Vocab)*4 > len(data) {
		return nil, errors.New("the head is not that of such a model")
	}
	dim, hidden, layers, kv := int(m.Dim), int(m.Hidden), int(m.Layers), m.kvSize()
	for _, part := range []struct {
		to *[]float32
		n  int
	}{
		{&m.embed, int(m.Vocab) * dim}, {&m.attNorm, layers * dim}, {&m.wq, layers * dim * dim}, {&m.wk, layers * dim * kv}, {&m.wv, layers * dim * kv},
		{&m.wo, layers * dim * dim}, {&m.ffnNorm, layers * dim}, {&m.w1, layers * dim * hidden}, {&m.w2, layers * dim * hidden}, {&m.w3, layers * dim * hidden},
		{&m.lastNorm, dim},
	} {
		*part.to = make([]float32, part.n)
		if err := binary.Read(r, binary.LittleEndian, *part.to); err != nil {
			return nil, fmt.Errorf("read the weights: %w", err)
		}
	}
	m.outputs = m.embed
	if !shared {
		if _, err := r.Seek(int64(m.Context)*int64(m.headSize())*4, io.SeekCurrent); err != nil { // tables of angles
			return nil, err
		}
		m.outputs = make([]float32, int(m.Vocab)*dim)
		if err := binary.Read(r, binary.LittleEndian, m.outputs); err != nil {
			return nil, fmt.Errorf("read the weights: %w", err)
		}
	}
	return m, m.readWords(filepath.Join(dir, "tok512.bin"))
}

func (m *Model) readWords(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	r := bytes.NewReader(data)
	var longest int32
	if err := binary.Read(r, binary.LittleEndian, &longest); err != nil {
		return fmt.Errorf("read the vocabulary: %w", err)
	}
	m.ids = map[string]int{}
	for i := range int(m.Vocab) {
		var entry struct {
			Score float32
			Size  int32
		}
		if err := binary.Read(r, binary.LittleEndian, &entry); err != nil || entry.Size < 0 || entry.Size > longest {
			return fmt.Errorf("read word %d of the vocabulary: %w", i, errors.Join(err, io.ErrUnexpectedEOF))
		}
		word := make([]byte, entry.Size)
		if _, err := io.ReadFull(r, word); err != nil {
			return fmt.Errorf("read word %d of the vocabulary: %w", i, err)
		}
		m.words, m.scores = append(m.words, string(word)), append(m.scores, entry.Score)
		m.ids[string(word)] = i
	}
	return nil
}

const (
	begin      = 1 // the token that begins a text
	firstBytes = 3 // tokens that stand for single bytes begin here
)

// encode makes tokens of a text: characters first, then the best neighbours merged until none are left.
func (m *Model) encode(text string) []int {
	var tokens []int
	if text == "" {
		return nil
	}
	for _, r := range " " + text {
		if id, ok := m.ids[string(r)]; ok {
			tokens = append(tokens, id)
			continue
		}
		for _, b := range []byte(string(r)) {
			tokens = append(tokens, int(b)+firstBytes)
		}
	}
	for {
		best, at, score := -1, -1, float32(-1e10)
		for i := range len(tokens) - 1 {
			if id, ok := m.ids[m.words[tokens[i]]+m.words[tokens[i+1]]]; ok && m.scores[id] > score {
				best, at, score = id, i, m.scores[id]
			}
		}
		if at < 0 {
			return tokens
		}
		tokens = append(append(tokens[:at:at], best), tokens[at+2:]...)
	}
}

// Generate goes on with a text, always by the likeliest token.
func (m *Model) Generate(prompt string, tokens int) string {
	s := m.read(prompt, tokens)
	var out strings.Builder
	for range tokens {
		next := 0
		for i, v := range s.logits {
			if v > s.logits[next] {
				next = i
			}
		}
		if next == begin || next == 2 {
			break
		}
		if b := next - firstBytes; b >= 0 && b < 256 {
			out.WriteByte(byte(b))
		} else {
			out.WriteString(m.words[next])
		}
		s.forwardToken(next)
	}
	return out.String()
}

// Choose says which of some texts goes on best with a prompt, by the mean likelihood of their tokens.
func (m *Model) Choose(prompt string, texts []string) int {
	best, at := math.Inf(-1), 0
	for i, text := range texts {
		tokens := m.encode(text)
		s := m.read(prompt, len(tokens))
		sum := 0.0
		for _, token := range tokens {
			sum += s.logLikelihood(token)
			s.forwardToken(token)
		}
		if mean := sum / float64(len(tokens)); mean > best {
			best, at = mean, i
		}
	}
	return at
}

// read takes in a prompt, or its end where it is longer than fits next to room tokens.
func (m *Model) read(prompt string, room int) *state {
	s := &state{m: m, keys: make([]float32, int(m.Layers)*int(m.Context)*m.kvSize()), values: make([]float32, int(m.Layers)*int(m.Context)*m.kvSize())}
	tokens := m.encode(prompt)
	if fits := int(m.Context) - room - 1; len(tokens) > fits {
		tokens = tokens[len(tokens)-fits:]
	}
	s.forwardToken(begin)
	for _, token := range tokens {
		s.forwardToken(token)
	}
	return s
}
