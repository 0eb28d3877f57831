package outbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

const (
	// SpillDir holds the payloads that are too large for a line, each in a file named by its sha256.
	SpillDir = protocol.SpillDir
	// keptText is how much of a spilled text stays on the line.
	keptText = 4 << 10
)

// ErrTooLarge is wrapped when a payload has no part that may be spilled.
var ErrTooLarge = errors.New("event too large")

// Ref stands in for content that was spilled to a file.
type Ref struct {
	Path   string `json:"path"` // relative to the workspace
	Size   int    `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// Spill writes data to a file named by its digest, so that spilling twice is the same as once. It is written each time:
// any process in the sprite can change a file of that name, and the newest payload must be the last to be pruned.
func Spill(root *workspace.Root, data []byte) (Ref, error) {
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	ref := Ref{Path: SpillDir + "/" + digest, Size: len(data), SHA256: digest}
	if err := root.WriteFile(ref.Path, data, 0o644); err != nil {
		return Ref{}, fmt.Errorf("spill %d bytes: %w", len(data), err)
	}
	return ref, nil
}

// Spill is Spill into the workspace of the log; Spilled says from then on that there may be something to prune.
func (l *Log) Spill(data []byte) (Ref, error) {
	l.spilled.Store(true)
	return Spill(l.root, data)
}

// spillPayload makes p fit on a line by moving its free-form parts to files, largest first, so that it still follows the
// payload rules.
func spillPayload(root *workspace.Root, p protocol.Payload) (protocol.Payload, error) {
	for range 3 { // no payload has more than two such parts
		raw, err := json.Marshal(p)
		if err != nil {
			return nil, fmt.Errorf("append %s to outbox: %w", p.EventType(), err)
		}
		if len(raw) <= protocol.SpillAt {
			return p, nil
		}
		switch q := p.(type) {
		case protocol.Info:
			q.Metadata, q.Message, err = spillEither(root, q.Metadata, q.Message)
			p = q
		case protocol.Error:
			q.Details, q.Message, err = spillEither(root, q.Details, q.Message)
			p = q
		case protocol.Completed:
			q.Summary, err = spillText(root, q.Summary)
			p = q
		case protocol.Artifact:
			q.Metadata, err = spillJSON(root, q.Metadata)
			p = q
		case protocol.ActionRequest:
			q.Parameters, err = spillJSON(root, q.Parameters)
			p = q
		case protocol.EnvironmentProposal:
			q.SuggestedAdjustment.Details, err = spillJSON(root, q.SuggestedAdjustment.Details)
			p = q
		default:
			err = fmt.Errorf("%w: the payload of %s has %d bytes, %d are allowed", ErrTooLarge, p.EventType(), len(raw), protocol.SpillAt)
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: %s does not fit although its free-form parts were moved to files", ErrTooLarge, p.EventType())
}

func spillEither(root *workspace.Root, data json.RawMessage, text string) (json.RawMessage, string, error) {
	if len(data) > len(text) {
		data, err := spillJSON(root, data)
		return data, text, err
	}
	text, err := spillText(root, text)
	return data, text, err
}

func spillJSON(root *workspace.Root, data json.RawMessage) (json.RawMessage, error) {
	ref, err := Spill(root, data)
	if err != nil {
		return nil, err
	}
	return json.Marshal(ref)
}

// spillText keeps the head of a text and says where all of it is.
func spillText(root *workspace.Root, text string) (string, error) {
	ref, err := Spill(root, []byte(text))
	if err != nil {
		return "", err
	}
	end := min(keptText, len(text))
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.ToValidUTF8(text[:end], "\uFFFD") + fmt.Sprintf("… (all %d bytes in %s)", ref.Size, ref.Path), nil
}

// PruneSpill removes the oldest spilled files until those that stay have at most budget bytes. The newest recent files
// stay, because a reader may be about to open them, and so do those that pinned returns by digest. It is called only if
// files must be removed.
func PruneSpill(root *workspace.Root, budget int64, recent int, pinned func() (map[string]bool, error)) error {
	files, err := root.Runtime().List(SpillDir)
	if err != nil {
		return fmt.Errorf("prune spilled files: %w", err)
	}
	total := int64(0)
	for _, info := range files {
		total += info.Size()
	}
	if total <= budget || len(files) <= recent {
		return nil
	}
	keep, err := pinned()
	if err != nil {
		return err
	}
	for _, info := range files[:len(files)-recent] {
		if total <= budget {
			return nil
		}
		if keep[info.Name()] {
			continue
		}
		if err := root.Remove(SpillDir + "/" + info.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("prune spilled files: %w", err)
		}
		total -= info.Size()
	}
	return nil
}
