package session

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

const (
	// maxSpilled is the largest result, in bytes, that is read back from the file into which its skill moved it. A larger
	// one stays a reference to that file.
	maxSpilled = 16 << 20
	// maxWhole is the largest that takes its place as a whole: flows keep results in their state, which is bounded.
	maxWhole = 512 << 10
	// maxMember is the largest member of a larger one that does.
	maxMember = 32 << 10
)

// inlineSpilled puts the data of a result that is too large for a line in the place of the reference to its file, so that a flow
// reaches its members. Data that cannot be read stays a reference, with the warning that says so.
func (s *Session) inlineSpilled(ctx context.Context, c lattice.Call, res *protocol.Result) {
	i := slices.IndexFunc(res.Warnings, func(w protocol.Warning) bool { return w.Code == protocol.WarnSpilled })
	if i < 0 {
		return
	}
	bulk := &res.Data
	if res.Error != nil {
		bulk = &res.Error.Details
	}
	data, err := s.readSpilled(ctx, c, *bulk)
	if err != nil {
		s.log.Warn().Str("run", c.RunID).Str("call", c.ID).Err(err).Msg("read back a result")
		return
	}
	if len(data) <= maxWhole {
		*bulk, res.Warnings = data, slices.Delete(slices.Clone(res.Warnings), i, i+1)
		return
	}
	if small, err := smallMembers(data, *bulk); err == nil {
		*bulk = small
	}
}

// smallMembers is the object data with the reference ref in the place of each member that is large.
func smallMembers(data, ref json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, err
	}
	var kept map[string]json.RawMessage // the members of ref stay where data has none of their names
	if err := json.Unmarshal(ref, &kept); err != nil {
		return nil, err
	}
	left, room := maxWhole, 2*maxWhole // left for values; left for names, values and references
	for _, name := range slices.Sorted(maps.Keys(members)) {
		value := members[name]
		if len(value) > maxMember || len(value) > left {
			value = ref
		}
		left -= len(value)
		if room -= len(name) + len(value); room < 0 {
			return nil, errors.New("it has too many members")
		}
		kept[name] = value
	}
	return json.Marshal(kept)
}

// readSpilled reads the file that a reference names. The reference is the sprite's word: the file must be one of spilled
// results, and have the content that the reference promises.
func (s *Session) readSpilled(ctx context.Context, c lattice.Call, ref json.RawMessage) (json.RawMessage, error) {
	var file struct {
		Path, SHA256 string
		Size         int64
	}
	if err := json.Unmarshal(ref, &file); err != nil {
		return nil, fmt.Errorf("read where the result of %s is: %w", c.Skill, err)
	}
	if path.Dir(file.Path) != protocol.SpillDir || file.Size > maxSpilled {
		return nil, fmt.Errorf("the result of %s has %d bytes, at most %d are read from a file of %s", c.Skill, file.Size, maxSpilled, protocol.SpillDir)
	}
	from, err := s.host.ReadFrom(ctx, c.Sprite, path.Join("/workspace", file.Path), 0)
	if err != nil {
		return nil, fmt.Errorf("read %s of sprite %s: %w", file.Path, c.Sprite, err)
	}
	defer from.Close()
	data, err := io.ReadAll(io.LimitReader(from, maxSpilled+1))
	if err != nil {
		return nil, fmt.Errorf("read %s of sprite %s: %w", file.Path, c.Sprite, err)
	}
	data = bytes.TrimSpace(data)
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != file.SHA256 || !json.Valid(data) {
		return nil, fmt.Errorf("%s of sprite %s is not the result that was announced", file.Path, c.Sprite)
	}
	return data, nil
}
