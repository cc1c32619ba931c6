package stackdump

import (
	"strings"
	"testing"
)

// javaLoopDump is the dump of an event loop in a state, with these frames, and
// of a thread that waits for a lock that it holds, if it holds one.
func javaLoopDump(state, holds string, frames ...string) string {
	var b strings.Builder
	b.WriteString("Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode):\n\n" +
		`"event-loop" #20 prio=5 os_prio=0 cpu=1.46ms elapsed=1.88s tid=0x00007f6c081376c0 nid=0x6d2d waiting on condition  [0x00007f6be4c9c000]` +
		"\n   java.lang.Thread.State: " + state + "\n")
	for _, f := range frames {
		b.WriteString("\tat " + f + "\n")
	}
	if holds != "" {
		b.WriteString("\t- locked <" + holds + "> (a java.lang.Object)\n")
	}
	b.WriteString("\tat java.lang.Thread.run(java.base@17.0.15/Thread.java:840)\n\n")
	if holds != "" {
		b.WriteString(`"worker" #21 prio=5 os_prio=0 cpu=1.46ms elapsed=1.88s tid=0x00007f6c081376c1 nid=0x6d2e waiting for monitor entry  [0x00007f6be4c9c000]` +
			"\n   java.lang.Thread.State: BLOCKED (on object monitor)\n\tat Agent.work(Agent.java:9)\n\t- waiting to lock <" + holds + "> (a java.lang.Object)\n\n")
	}
	return b.String() + "JNI global refs: 14, weak refs: 0\n\n"
}

// A loop of Java is idle in its own poll alone: a wait for a result, a thread or a
// process, and a task that waits, are no poll.
func TestJavaLoopIsIdleInItsOwnPollAlone(t *testing.T) {
	const (
		park   = "jdk.internal.misc.Unsafe.park(java.base@17.0.15/Native Method)"
		locks  = "java.util.concurrent.locks.LockSupport.park(java.base@17.0.15/LockSupport.java:211)"
		cond   = "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject.await(java.base@17.0.15/AbstractQueuedSynchronizer.java:1630)"
		take   = "java.util.concurrent.LinkedBlockingQueue.take(java.base@17.0.15/LinkedBlockingQueue.java:435)"
		put    = "java.util.concurrent.ArrayBlockingQueue.put(java.base@17.0.15/ArrayBlockingQueue.java:370)"
		future = "java.util.concurrent.CompletableFuture.get(java.base@17.0.15/CompletableFuture.java:2072)"
		latch  = "java.util.concurrent.CountDownLatch.await(java.base@17.0.15/CountDownLatch.java:230)"
		wait   = "java.lang.Object.wait(java.base@17.0.15/Native Method)"
		join   = "java.lang.Thread.join(java.base@17.0.15/Thread.java:1304)"
		sleep  = "java.lang.Thread.sleep(java.base@17.0.15/Native Method)"
		proc   = "java.lang.ProcessImpl.waitFor(java.base@17.0.15/ProcessImpl.java:434)"
		epoll  = "sun.nio.ch.EPoll.wait(java.base@17.0.15/Native Method)"
		sel    = "sun.nio.ch.SelectorImpl.select(java.base@17.0.15/SelectorImpl.java:141)"
		task   = "java.util.concurrent.ThreadPoolExecutor.getTask(java.base@17.0.15/ThreadPoolExecutor.java:1062)"
		worker = "java.util.concurrent.ThreadPoolExecutor.runWorker(java.base@17.0.15/ThreadPoolExecutor.java:1122)"
		loop   = "Agent.loop(Agent.java:50)"
		lambda = "Agent.lambda$main$0(Agent.java:60)"
		handle = "Agent.handle(Agent.java:70)"
		nio    = "io.netty.channel.nio.NioEventLoop.select(NioEventLoop.java:868)"
		nioRun = "io.netty.channel.nio.NioEventLoop.run(NioEventLoop.java:526)"
		native = "io.netty.channel.epoll.Native.epollWait(Native Method)"
	)
	const waiting, timed, runnable = "WAITING (parking)", "TIMED_WAITING (sleeping)", "RUNNABLE"
	for name, c := range map[string]struct{ dump, want string }{
		"takes from its queue":         {javaLoopDump(waiting, "", park, locks, cond, take, loop), "java 1 1 idle"},
		"the same, in a lambda":        {javaLoopDump(waiting, "", park, locks, cond, take, lambda), "java 1 1 idle"},
		"the same, started by one":     {javaLoopDump(waiting, "", park, locks, cond, take, loop, lambda), "java 1 1 idle"},
		"waits for a notice":           {javaLoopDump("WAITING (on object monitor)", "", wait, loop), "java 1 1 idle"},
		"selects":                      {javaLoopDump(runnable, "", epoll, sel, lambda), "java 1 1 idle"},
		"selects in a framework":       {javaLoopDump(runnable, "", epoll, sel, nio, nioRun), "java 1 1 idle"},
		"a framework's own poll":       {javaLoopDump(runnable, "", native, "io.netty.channel.epoll.EpollEventLoop.run(EpollEventLoop.java:364)"), "java 1 1 idle"},
		"sleeps between rounds":        {javaLoopDump(timed, "", sleep, loop), "java 1 1 idle"},
		"a worker without a task":      {javaLoopDump(waiting, "", park, locks, cond, take, task, worker), "java 1 1 idle"},
		"waits for a result":           {javaLoopDump(waiting, "", park, locks, future, loop), "java 1 1 wedged Agent.java:50 loop"},
		"waits for a latch":            {javaLoopDump(waiting, "", park, locks, latch, lambda), "java 1 1 wedged Agent.java:60 lambda$main$0"},
		"waits for room in a queue":    {javaLoopDump(waiting, "", park, locks, cond, put, loop), "java 1 1 wedged Agent.java:50 loop"},
		"waits for a thread":           {javaLoopDump("WAITING (on object monitor)", "", wait, join, loop), "java 1 1 wedged Agent.java:50 loop"},
		"waits for a process":          {javaLoopDump("WAITING (on object monitor)", "", wait, proc, loop), "java 1 1 wedged Agent.java:50 loop"},
		"a task of a worker waits":     {javaLoopDump(waiting, "", park, locks, future, lambda, worker), "java 1 1 wedged Agent.java:60 lambda$main$0"},
		"a task in a lambda sleeps":    {javaLoopDump(timed, "", sleep, lambda, loop), "java 1 1 wedged Agent.java:60 lambda$main$0"},
		"a handler takes from a queue": {javaLoopDump(waiting, "", park, locks, cond, take, handle, loop), "java 1 1 wedged Agent.java:70 handle"},
		"sleeps with a lock":           {javaLoopDump(timed, "0x000000069ec1aaf8", sleep, loop), "java 1 2 wedged Agent.java:50 loop"},
	} {
		if got := inWords(NewSummary(Parse(c.dump), Options{})); got != c.want {
			t.Errorf("%s:\n got  %s\nwant %s", name, got, c.want)
		}
	}
}
