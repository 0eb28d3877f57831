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

// Failed is a failure of the work itself (exit 1).
func Failed(code, format string, args ...any) *Error {
	return fault.Failed(code, format, args...)
}

// BadInput refuses one input, named by its JSON pointer (exit 2).
func BadInput(pointer, format string, args ...any) *Error {
	return badInput([]protocol.Problem{{Pointer: pointer, Message: fmt.Sprintf(format, args...)}})
}

// refusal is bad input that is no member of the input object (exit 2).
func refusal(code, format string, args ...any) *Error {
	return fault.BadInput(code, format, args...)
}

// NotFound says that what the input names is not there (exit 3).
func NotFound(format string, args ...any) *Error {
	return fault.NotFound("not_found", format, args...)
}

// Network is a failure of a connection; trying again may help (exit 5).
func Network(format string, args ...any) *Error {
	return fault.Network("network", format, args...)
}

// Busy says that something else holds what is needed; trying again helps (exit 6).
func Busy(format string, args ...any) *Error {
	return fault.Busy("busy", format, args...)
}

// Unsafe refuses what could harm (exit 7).
func Unsafe(code, format string, args ...any) *Error {
	return fault.Unsafe(code, format, args...)
}

// Unsupported says that this sprite cannot do it (exit 8).
func Unsupported(code, format string, args ...any) *Error {
	return fault.Unsupported(code, format, args...)
}

// Limit says that a limit was passed (exit 9).
func Limit(code, format string, args ...any) *Error {
	return fault.Limit(code, format, args...)
}

// Timeout says that the time given was used up (exit 124).
func Timeout(format string, args ...any) *Error {
	return fault.Timeout("timeout", format, args...)
}

// badInput tells all problems of an input at once.
func badInput(problems []protocol.Problem) *Error {
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

// The codes of a call that a full disk or a used-up quota stopped; it may run again once there is space.
const (
	codeNoSpace = "no_space"
	codeQuota   = "quota_exceeded"
)

// Fault maps any error of a skill to the Error that its caller sees: an *Error as it is, known causes to their code,
// anything else to "internal".
func Fault(err error) *Error {
	var known *Error
	switch {
	case errors.As(err, &known):
		if known.Exit == protocol.ExitOK {
			return &Error{Fault: known.Fault, Exit: protocol.ExitFailed}
		}
		return known
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout("%v", err)
	case errors.Is(err, context.Canceled):
		return fault.Cancelled("cancelled", "the call was cancelled")
	case errors.Is(err, workspace.ErrPlanted):
		return Unsafe("unsafe_path", "%v", err).WithHint("something in the sprite put it there: remove it or move it away, and the runtime makes its own anew")
	case errors.Is(err, workspace.ErrUnsafe):
		return Unsafe("unsafe_path", "%v", err).WithHint("paths must stay inside the workspace and name regular files")
	case errors.Is(err, workspace.ErrTooLarge):
		return Limit("too_large", "%v", err).WithHint("nothing of that size is read whole; look at what it is, and make it smaller")
	case errors.Is(err, syscall.EISDIR):
		return Unsafe("unsafe_path", "%v", err).WithHint("a regular file is wanted, not a directory")
	case errors.Is(err, syscall.ENAMETOOLONG):
		return refusal("name_too_long", "%v", err).WithHint("a name may have 255 bytes, a path 4095")
	case errors.Is(err, syscall.EFBIG):
		return Limit("too_large", "%v", err).WithHint("the sprite limits the size of files")
	case errors.Is(err, outbox.ErrLocked):
		return Busy("%v", err).WithHint("find what holds %s, such as with lsof, and end it; then make the call again", protocol.OutboxFile)
	case errors.Is(err, syscall.ENOSPC):
		return retryable(fault.Limit(codeNoSpace, "%v", err).
			WithHint("free space on the disk of the workspace, then make the same call again"))
	case errors.Is(err, syscall.EDQUOT):
		return retryable(fault.Limit(codeQuota, "%v", err).
			WithHint("remove files of the user that the sprite runs as, or raise its quota; then make the same call again"))
	case errors.Is(err, syscall.EROFS):
		return fault.Failed("read_only", "%v", err).
			WithHint("the file system is mounted read-only: mount it writable, or set LATTICE_WORKSPACE to a folder elsewhere")
	case errors.Is(err, syscall.EIO):
		return retryable(fault.Failed("io_error", "%v", err).
			WithHint("the disk failed to read or write; look at the kernel's log, and restore a checkpoint"))
	case errors.Is(err, syscall.ENOTDIR):
		return NotFound("%v", err).WithHint("a part of the path is a file, not a folder")
	case errors.Is(err, fs.ErrNotExist):
		return NotFound("%v", err).WithHint("look whether the path is spelled right, and at what is there")
	case errors.Is(err, fs.ErrExist):
		return Failed("exists", "%v", err).WithHint("something else has that name: choose another, or move away what is there")
	case errors.Is(err, fs.ErrPermission):
		return fault.Failed("access_denied", "%v", err).
			WithHint("the user that the sprite runs as may not do that: change the owner or the mode of what is named")
	}
	return fault.Internal("internal", "%v", err)
}

// retryable marks a failure that may pass: the same call may be made again.
func retryable(e *Error) *Error {
	e.Retryable = true
	return e
}
