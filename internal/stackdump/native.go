package stackdump

import (
	"slices"
	"strings"
)

// nativeCode tells whose code a compiled function is. Tools show symbols of the
// C library, of language runtimes and of the program alike, often without the
// library that they stand in.
func nativeCode(function, place string) Code {
	for _, part := range []string{"/libc.so", "/libc-", "/libc.musl", "/libpthread", "/ld-linux", "/ld-musl", "/libstdc++", "/libgcc_s", "/libpython", "sysdeps/", "/rustc/", "/library/std/", "/library/core/"} {
		if strings.Contains(place, part) {
			return Standard
		}
	}
	if strings.HasPrefix(place, "./") && strings.Contains(place, "/") && place != "./" {
		for _, dir := range []string{"./nptl/", "./csu/", "./io/", "./misc/", "./socket/", "./stdlib/", "./signal/", "./time/", "./malloc/", "./posix/"} {
			if strings.HasPrefix(place, dir) {
				return Standard
			}
		}
	}
	if systemCall(function) {
		return Standard
	}
	if runtimeFunction(function) {
		return Standard
	}
	if strings.HasPrefix(function, "<") && (strings.Contains(function, " as core::") || strings.Contains(function, " as std::") || strings.HasPrefix(function, "<signal handler")) {
		return Standard
	}
	return User
}

// runtimeFunction reports how functions of the C library and of the runtimes of
// C++, Rust, Python, Node.js, Ruby and Java begin.
func runtimeFunction(function string) bool {
	switch head(function) {
	case '0':
		return begins(function, "0x")
	case '<':
		return begins(function, "<core::", "<alloc::", "<std::")
	case 'B':
		return begins(function, "Builtins_")
	case 'C':
		return begins(function, "CompileBroker::", "ConcurrentGCThread::")
	case 'G':
		return begins(function, "GangWorker::")
	case 'J':
		return begins(function, "JVM_", "JavaThread::", "JavaMain")
	case 'P':
		return begins(function, "Py", "Parker::")
	case 'S':
		return begins(function, "StartIoThreadMain")
	case 'T':
		return begins(function, "TaskStep", "TaskWakeup", "Thread::")
	case 'U':
		return begins(function, "Unsafe_Park")
	case 'V':
		return begins(function, "VMThread::")
	case 'W':
		return begins(function, "WorkerThread::", "WatcherThread::")
	case '_':
		return begins(function, "__", "_dl_", "_IO_", "_start", "_Py", "_run_main")
	}
	return runtimeLower(function)
}

// runtimeLower is the part of runtimeFunction that begins with a small letter.
func runtimeLower(function string) bool {
	switch head(function) {
	case 'a':
		return begins(function, "alloc::", "acquire_timed")
	case 'b':
		return begins(function, "builtin_", "bytes_method")
	case 'c':
		return begins(function, "clone", "core::", "cfunction_", "cfunction", "context_run")
	case 'd':
		return begins(function, "do_futex")
	case 'f':
		return begins(function, "futex_", "function_code_")
	case 'g':
		return begins(function, "gsignal", "gen_send", "gen_iternext")
	case 'l':
		return begins(function, "lll_", "lock_PyThread")
	case 'm':
		return begins(function, "method_vectorcall")
	case 'n':
		return begins(function, "node::SpinEventLoop", "node::Start", "node::LoadEnvironment", "node::NodeMainInstance", "node::InternalMakeCallback",
			"node::InternalCallbackScope", "node::MakeCallback", "node::PlatformWorkerThread", "node::WorkerThreadsTaskRunner",
			"node::TaskQueue", "node::worker::Worker::Run", "node::worker::Worker::StartThread", "node::inspector::",
			"node::Environment::RunTimers", "node::SignalInspector", "node::SyncProcessRunner::TryInitializeAndRunLoop",
			"node::(anonymous namespace)::PlatformWorkerThread", "node::StartIoThread", "native_sleep")
	case 'o':
		return begins(function, "object_vacall", "os::")
	case 'p':
		return begins(function, "pthread_", "pythread_wrapper", "pymain_", "partial_vectorcall")
	case 'r':
		return begins(function, "run_mod", "run_eval_code", "rlock_acquire", "runtime.", "rb_", "ruby_")
	case 's':
		return begins(function, "sem_", "start_thread", "std::", "slot_tp_")
	case 't':
		return begins(function, "thread_run", "task_step", "type_call", "thread_start_func", "thread_do_start", "thread_join")
	case 'u':
		return begins(function, "uv__", "uv_run", "uv_cond_", "uv_thread_", "uv_sem_")
	case 'v':
		return begins(function, "vectorcall_", "v8::", "vm_")
	}
	return false
}

// begins reports whether a function begins with one of the prefixes.
func begins(function string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(function, p) })
}

// systemCall reports a function that is the name of a call into the system, or
// of one of the C library that waits.
func systemCall(function string) bool {
	switch function {
	case "syscall", "poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait", "read", "write", "readv", "writev", "pread", "pwrite", "recv", "recvfrom", "recvmsg", "send", "sendto", "sendmsg",
		"accept", "accept4", "connect", "nanosleep", "clock_nanosleep", "sleep", "usleep", "pause", "sigsuspend", "sigwait", "sigtimedwait", "sigwaitinfo", "wait4", "waitpid", "waitid", "fsync", "fdatasync", "open", "openat", "close",
		"ioctl", "flock", "fcntl", "raise", "abort", "kill", "tgkill", "mmap", "munmap", "futex", "getrandom", "sched_yield", "io_getevents", "msgrcv", "semop", "exit", "??":
		return true
	}
	return false
}

// polls reports a frame that waits for events, as a loop does when it is idle.
func polls(function string) bool {
	name := strings.Trim(function, "_")
	name = strings.TrimPrefix(name, "GI___")
	return slices.Contains([]string{"epoll_wait", "epoll_pwait", "poll", "ppoll", "select", "pselect", "kevent"}, name)
}

// withoutArguments cuts the parameters off a name of C++.
func withoutArguments(name string) string {
	depth := 0
	for i := range len(name) {
		switch name[i] {
		case '<':
			if !strings.HasSuffix(name[:i], "operator") {
				depth++
			}
		case '>':
			if depth > 0 && (i == 0 || name[i-1] != '-') {
				depth--
			}
		case '(':
			rest := name[i:]
			if depth == 0 && i > 0 && !strings.HasPrefix(rest, "(anonymous ") && !(strings.HasPrefix(rest, "()") && strings.HasSuffix(name[:i], "operator")) {
				return strings.TrimSpace(name[:i])
			}
		}
	}
	return name
}

// demangle turns a symbol of Rust or a nested one of C++ into a path. Types and
// parameters, which the path does not need, are left out.
func demangle(symbol string) string {
	switch {
	case strings.HasPrefix(symbol, "_ZN"):
		if path := nested(symbol[3:]); path != "" {
			return path
		}
	case strings.HasPrefix(symbol, "_R") && len(symbol) > 3:
		if path := rustPath(symbol[2:]); path != "" {
			return path
		}
	}
	return symbol
}

// nested reads the names of `5agent8dispatch17h9f4bc534838a13c1E`, of which the
// last one is a hash in Rust.
func nested(s string) string {
	var names []string
	s = strings.TrimLeft(s, "KVr")
	for s != "" && s[0] != 'E' {
		n, rest, ok := number(s)
		if !ok || n == 0 || n > len(rest) {
			if s[0] == 'C' || s[0] == 'D' || s[0] == 'I' || s[0] == 'S' || s[0] == 'L' { // constructors, templates
				break
			}
			return ""
		}
		names = append(names, rest[:n])
		s = rest[n:]
	}
	if k := len(names) - 1; k > 0 && len(names[k]) == 17 && names[k][0] == 'h' && hexDigits(names[k][1:]) == 16 {
		names = names[:k]
		for i := range names {
			names[i] = rustName(names[i])
		}
	}
	return strings.Join(names, "::")
}

// rustName undoes the spelling of signs in the older mangling of Rust.
func rustName(name string) string {
	if strings.HasPrefix(name, "_$") {
		name = name[1:]
	}
	return strings.NewReplacer("$LT$", "<", "$GT$", ">", "$LP$", "(", "$RP$", ")", "$RF$", "&", "$BP$", "*", "$C$", ",",
		"$u7b$", "{", "$u7d$", "}", "$u20$", " ", "$u5b$", "[", "$u5d$", "]", "$u27$", "'", "$u3b$", ";", "$u2b$", "+", "$u22$", `"`, "..", "::").Replace(name)
}

// rustPath reads the names of the newer mangling of Rust, in their order.
func rustPath(s string) string {
	var names []string
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case (c == 's' || c == 'B' || c == 'C' && i+1 < len(s) && s[i+1] == 's') && strings.IndexByte(s[i:], '_') > 0:
			if c == 'C' {
				i++
				continue
			}
			i += strings.IndexByte(s[i:], '_') + 1 // a disambiguator, or a reference to what was said
		case c >= '1' && c <= '9':
			n, rest, ok := number(s[i:])
			if !ok {
				return ""
			}
			rest = strings.TrimPrefix(rest, "_")
			if n > len(rest) {
				return ""
			}
			names = append(names, rest[:n])
			i = len(s) - len(rest) + n
		default:
			i++
		}
	}
	return strings.Join(names, "::")
}
