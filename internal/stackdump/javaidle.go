package stackdump

import "strings"

// javaIdle reports a loop that waits for its own events, and for nothing else:
// what it calls there is a poll, and it is the loop's own function that calls it.
func javaIdle(t *Thread) bool {
	if len(t.Frames) == 0 || t.Lock || t.Running {
		return false
	}
	if javaSelects(t) {
		return true
	}
	own, call := javaOwn(t)
	switch {
	case own == 0: // a worker of the library that waits for a task has none
		return javaIdleWorker(t)
	case own > 1 || call < 0:
		return false
	}
	return javaPoll(t.Frames[call].Function)
}

// javaOwn counts the functions of the program's own in which a thread is, those of
// lambdas apart that only start a thread, and gives the frame that the innermost
// of them called; -1: it is not of the library.
func javaOwn(t *Thread) (own, call int) {
	call = -1
	for i, f := range t.Frames {
		if f.Code != User {
			continue
		}
		if own == 0 {
			call = i - 1
		}
		if own == 0 || !strings.Contains(f.Function, "lambda$") {
			own++
		}
	}
	return own, call
}

// javaSelects reports a thread that waits for input and output. What lies between
// that and the program's own functions is the loop's framework.
func javaSelects(t *Thread) bool {
	class, method := javaMethod(t.Frames[0].Function)
	if strings.HasPrefix(strings.ToLower(method), "epollwait") || method == "keventWait" {
		return true
	}
	if t.Frames[0].Code != Standard || class == "" {
		return false
	}
	for _, f := range t.Frames {
		class, method := javaMethod(f.Function)
		if f.Code != Standard {
			return false
		}
		if strings.Contains(class, "Selector") && strings.HasPrefix(method, "select") {
			return true
		}
	}
	return false
}

// javaIdleWorker reports a thread of a pool that has no task.
func javaIdleWorker(t *Thread) bool {
	for _, f := range t.Frames {
		class, method := javaMethod(f.Function)
		switch {
		case class == "ThreadPoolExecutor" && method == "getTask", class == "ForkJoinPool" && strings.HasPrefix(method, "awaitWork"),
			javaQueue(class, method):
			return true
		}
	}
	return false
}

// javaPoll reports a function of the library in which a loop waits for what comes
// next. One that waits for a result, a lock, a thread or a process is none.
func javaPoll(function string) bool {
	class, method := javaMethod(function)
	switch {
	case javaQueue(class, method):
		return true
	case class == "Object":
		return method == "wait" || method == "wait0"
	case class == "LockSupport":
		return strings.HasPrefix(method, "park")
	case strings.HasSuffix(class, "ConditionObject"):
		return strings.HasPrefix(method, "await")
	case class == "ServerSocket" || strings.HasPrefix(class, "ServerSocketChannel"):
		return method == "accept"
	case class == "Thread", class == "TimeUnit":
		return method == "sleep" || method == "sleep0"
	}
	return false
}

// javaQueue reports that something is taken out of a queue.
func javaQueue(class, method string) bool {
	return (strings.Contains(class, "Queue") || strings.Contains(class, "Deque")) &&
		(strings.HasPrefix(method, "take") || strings.HasPrefix(method, "poll"))
}

// javaMethod splits java.util.concurrent.LinkedBlockingQueue.take into its class,
// without the package, and its method.
func javaMethod(function string) (class, method string) {
	dot := strings.LastIndexByte(function, '.')
	if dot < 0 {
		return "", function
	}
	class, method = function[:dot], function[dot+1:]
	return class[strings.LastIndexByte(class, '.')+1:], method
}
