package skill

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/outbox"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// Error is [fault.Error], the failure that the caller of a skill can act on.
type Error = fault.Error

// BadInput refuses one input, named by its JSON pointer (exit 2).
func BadInput(pointer, format string, args ...any) *fault.Error {
	return badInput([]protocol.Problem{{Pointer: pointer, Message: fmt.Sprintf(format, args...)}})
}

// badInput reports all problems of an input in one error.
func badInput(problems []protocol.Problem) *fault.Error {
	message := "the input is wrong: "
	for i, p := range problems {
		if i > 0 {
			message += "; "
		}
		if p.Pointer != "" {
			message += p.Pointer + " "
		}
		message += p.Message
	}
	return fault.BadInput("bad_input", "%s", message).WithDetails(map[string]any{"problems": problems})
}

// Codes of a call that was stopped by a full disk or an exceeded quota; it may run again when there is space.
const (
	codeNoSpace = "no_space"
	codeQuota   = "quota_exceeded"
)

// Fault maps any error of a skill to the Error that its caller sees: a *fault.Error as it is, known causes to their code,
// any other error to "internal".
func Fault(err error) *fault.Error {
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		if known.Exit == protocol.ExitOK {
			return &fault.Error{Fault: known.Fault, Exit: protocol.ExitFailed}
		}
		return known
	case errors.Is(err, context.DeadlineExceeded):
		return fault.Timeout("timeout", "%v", err)
	case errors.Is(err, context.Canceled):
		return fault.Cancelled("cancelled", "the call was cancelled")
	case errors.Is(err, workspace.ErrPlanted):
		return fault.Unsafe("unsafe_path", "%v", err).WithHint("another program in the sprite created it: remove it or move it away, and the runtime creates its own")
	case errors.Is(err, workspace.ErrUnsafe):
		return fault.Unsafe("unsafe_path", "%v", err).WithHint("paths must stay inside the workspace and name regular files")
	case errors.Is(err, workspace.ErrTooLarge):
		return fault.Limit("too_large", "%v", err).WithHint("files of that size are not read; make it smaller")
	case errors.Is(err, syscall.EISDIR):
		return fault.Unsafe("unsafe_path", "%v", err).WithHint("name a regular file, not a directory")
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fault.BadInput("name_too_long", "%v", err).WithHint("a name may have 255 bytes, a path 4095")
	case errors.Is(err, syscall.EFBIG):
		return fault.Limit("too_large", "%v", err).WithHint("the sprite limits the size of files")
	case errors.Is(err, outbox.ErrLocked):
		return fault.Busy("busy", "%v", err).WithHint("find the process that holds %s, for example with lsof, and end it; then make the call again", protocol.OutboxFile)
	case errors.Is(err, syscall.ENOSPC):
		return markRetryable(fault.Limit(codeNoSpace, "%v", err).
			WithHint("free space on the disk of the workspace, then make the same call again"))
	case errors.Is(err, syscall.EDQUOT):
		return markRetryable(fault.Limit(codeQuota, "%v", err).
			WithHint("remove files of the user that the sprite runs as, or raise its quota; then make the same call again"))
	case errors.Is(err, syscall.EROFS):
		return fault.Failed("read_only", "%v", err).
			WithHint("the file system is mounted read-only: mount it writable, or set LATTICE_WORKSPACE to a folder elsewhere")
	case errors.Is(err, syscall.EIO):
		return markRetryable(fault.Failed("io_error", "%v", err).
			WithHint("the disk failed to read or write; look at the kernel's log, and restore a checkpoint"))
	case errors.Is(err, syscall.ENOTDIR):
		return fault.NotFound("not_found", "%v", err).WithHint("a part of the path is a file, not a folder")
	case errors.Is(err, fs.ErrNotExist):
		return fault.NotFound("not_found", "%v", err).WithHint("check the spelling of the path, and list its folder")
	case errors.Is(err, fs.ErrExist):
		return fault.Failed("exists", "%v", err).WithHint("choose another name, or move the existing file")
	case errors.Is(err, fs.ErrPermission):
		return fault.Failed("access_denied", "%v", err).
			WithHint("the user of the sprite may not do that: change the owner or the mode of the file")
	}
	return fault.Internal("internal", "%v", err)
}

// markRetryable marks a failure as temporary: the same call may be made again.
func markRetryable(e *fault.Error) *fault.Error {
	e.Retryable = true
	return e
}
