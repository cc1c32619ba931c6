package stackdump

import (
	"fmt"
	"strings"
	"testing"
)

// TestSpellings reads what other releases and tools write than those of the
// samples.
func TestSpellings(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       string // format, dumps, threads, verdict, first culprit
	}{
		{"py-spy, loop active", `Process 16345: python3 agent.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 16345 (active+gil): "MainThread"
    call_tool (agent.py:13)
    run_step (agent.py:17)
    _run (asyncio/events.py:80)
    _run_once (asyncio/base_events.py:1922)
    run_forever (asyncio/base_events.py:607)
    run (asyncio/runners.py:190)
    <module> (agent.py:62)
Thread 16355 (idle): "worker-0"
    wait (threading.py:327)
    get (queue.py:171)
    worker (agent.py:36)
`, "py-spy 1 2 busy agent.py:13 call_tool"},
		{"py-spy, loop idle", `Thread 0x7F8A (idle): "MainThread"
    select (selectors.py:468)
    _run_once (asyncio/base_events.py:1884)
    run_forever (asyncio/base_events.py:607)
    <module> (idle.py:9)
`, "py-spy 1 1 idle"},
		{"py-spy, native frames", `Thread 12 (idle): "MainThread"
    clock_nanosleep (libc.so.6)
    call_tool (agent.py:13)
        Arguments:
            seconds: 3600
    _run_once (asyncio/base_events.py:1922)
    run_forever (asyncio/base_events.py:607)
`, "py-spy 1 1 wedged agent.py:13 call_tool"},
		{"Python 3.14, names and C stack", `Thread 0x00007fc5 [worker-0] (most recent call first):
  File "/usr/lib/python3.14/threading.py", line 327 in wait
  File "/srv/app/agent.py", line 36 in worker

Current thread 0x00007fc6 [python] (most recent call first):
  File "/srv/app/agent.py", line 13 in call_tool
  File "/usr/lib/python3.14/asyncio/base_events.py", line 2050 in _run_once
  File "/usr/lib/python3.14/asyncio/base_events.py", line 683 in run_forever
  File "/srv/app/agent.py", line 62 in <module>

Current thread's C stack trace (most recent call first):
  Binary file "/usr/bin/python3.14", at _Py_DumpStack+0x31 [0x5c1]
  <truncated rest of calls>

Extension modules: numpy.core (total: 1)
`, "py-faulthandler 1 2 wedged agent.py:13 call_tool"},
		{"Python, unknown lines and files", `Current thread 0x00007fc5 (most recent call first):
  Garbage-collecting
  File ???, line ??? in ???
  File "/srv/app/a.py", line ??? in step
`, "py-faulthandler 1 1 unclear a.py step"},
		{"Python, no frames", `Fatal Python error: init_sys_streams: can't initialize
Python runtime state: core initialized

Current thread 0x00007fc5c8ac2db8 (most recent call first):
  <no Python frame>
`, "py-faulthandler 1 1 unclear"},
		{"Python, frames cut", "Current thread 0x00007fc5c8ac2db8 (most recent call first):\n" +
			strings.Repeat("  File \"/srv/app/a.py\", line 3 in dig\n", 100) + "  ...\n", "py-faulthandler 1 1 unclear a.py:3 dig frames"},
		{"Python on Windows", `Current thread 0x00001a2c (most recent call first):
  File "C:\srv\app\agent.py", line 13 in call_tool
  File "C:\Python311\Lib\asyncio\base_events.py", line 1922 in _run_once
`, "py-faulthandler 1 1 unclear agent.py:13 call_tool"},
		{"print_stack, titles of other programs", `Thread 140332606944960 (worker):
  File "/srv/app/cur.py", line 10, in w
    threading.Event().wait()

Thread 140332630875008 (MainThread):
  File "/usr/lib/python3.11/asyncio/base_events.py", line 607, in run_forever
    self._run_once()
  File "/usr/lib/python3.11/asyncio/base_events.py", line 1922, in _run_once
    handle._run()
  File "/srv/app/cur.py", line 14, in main
    time.sleep(3600)
    ~~~~~~~~~~^^^^^^
`, "py-print_stack 1 2 wedged cur.py:14 main"},
		{"traceback and dump", `Traceback (most recent call last):
  File "/srv/app/a.py", line 5, in step
    parse(n)
KeyError: 'x'
Stack (most recent call first):
  File "/srv/app/single.py", line 3 in inner
`, "py-faulthandler 1 1 unclear single.py:3 inner"},
		{"traceback", "INFO start\nTraceback (most recent call last):\n  File \"/srv/app/a.py\", line 5, in step\n    parse(n)\nKeyError: 'x'\n", "py-traceback 0 0 not_a_dump"},
		{"Go, spinning", `SIGQUIT: quit
PC=0x49e262 m=3 sigcode=0

goroutine 7 gp=0x36405a3cf860 m=3 mp=0x584f60 [running]:
main.tightLoop(...)
	/srv/app/main.go:12
main.main.func1()
	/srv/app/main.go:19 +0x2 fp=0x36405a406fe0 sp=0x36405a406fd8 pc=0x49e262
created by main.main in goroutine 1
	/srv/app/main.go:19 +0xec

goroutine 1 gp=0x36405a3ce1e0 m=nil [chan receive]:
main.main()
	/srv/app/main.go:20 +0x2 fp=0x36405a406fe0 sp=0x36405a406fd8 pc=0x49e262

rax    0x0
`, "go 1 2 busy main.go:12 tightLoop"},
		{"Go, spinning elsewhere", `SIGQUIT: quit

goroutine 18 [running]:
	goroutine running on other thread; stack unavailable
created by main.main in goroutine 1
	/srv/app/main.go:19 +0xec

goroutine 1 [chan receive]:
main.main()
	/srv/app/main.go:20 +0x2
`, "go 1 2 busy"},
		{"Go, leaked", `goroutine 1 [running]:
main.main()
	/srv/app/main.go:21 +0xa5

goroutine 18 [chan send (leaked)]:
main.leak.func1()
	/srv/app/main.go:11 +0x1c
created by main.leak in goroutine 1
	/srv/app/main.go:11 +0x5f

goroutine 19 [chan send (leaked)]:
main.leak.func1()
	/srv/app/main.go:11 +0x1c
`, "go 1 3 unclear"},
		{"Go, idle loop by its label", `goroutine 8 [select, 3 minutes] {role: "event-loop"}:
main.(*Dispatcher).run(0xc000010000)
	/srv/app/main.go:53 +0x85
main.main.func1()
	/srv/app/main.go:61 +0x2e
`, "go 1 1 idle"},
		{"Go, label of another role", `goroutine 8 [chan send] {note: "not event-loop"}:
main.(*Dispatcher).run(0xc000010000)
	/srv/app/main.go:53 +0x85

goroutine 9 [chan send]:
main.(*Dispatcher).other(0xc000010000)
	/srv/app/main.go:54 +0x85
`, "go 1 2 unclear"},
		{"Go, frames elided", `goroutine 7 [chan receive]:
main.dig(0x0, 0xc000010000)
	/srv/app/main.go:16 +0x85
...201 frames elided...
main.dig(0x12c, 0xc000010000)
	/srv/app/main.go:18 +0x85
created by main.main in goroutine 1
	/srv/app/main.go:44 +0x265
`, "go 1 1 wedged main.go:16 dig frames"},
		{"Go, profile of leaks", "goroutineleak profile: total 3\n3 @ 0x489fee 0x4195bc\n#\t0x674acc\tmain.leak.func1+0x6c\t/srv/app/main.go:11\n\n", "go-pprof-text 1 3 unclear"},
		{"Java 8", `2026-11-30 05:38:59
Full thread dump OpenJDK 64-Bit Server VM (25.392-b08 mixed mode):

"event-loop" #20 prio=5 os_prio=0 tid=0x00007f6c081376c0 nid=0x6d2d waiting for monitor entry [0x00007f6be4c9c000]
   java.lang.Thread.State: BLOCKED (on object monitor)
	at Agent.dispatch(Agent.java:13)
	- waiting to lock <0x000000069ec1aaf8> (a java.lang.Object)
	at java.lang.Thread.run(Thread.java:750)

"VM Thread" os_prio=0 tid=0x00007f6c080f3a50 nid=0x6d19 runnable 

JNI global references: 12

`, "java 1 2 wedged Agent.java:13 dispatch"},
		{"Java 21, jcmd", `4711:
2026-11-30 05:38:59
Full thread dump OpenJDK 64-Bit Server VM (21.0.2+13 mixed mode, sharing):

Threads class SMR info:
_java_thread_list=0x00007fab7c002610, length=2, elements={
0x00007f6c081376c0, 0x00007f6c081376d0
}

"event-loop" #20 [27949] prio=5 os_prio=0 cpu=1.46ms elapsed=1.88s tid=0x00007f6c081376c0 nid=27949 waiting on condition  [0x00007f6be4c9c000]
   java.lang.Thread.State: WAITING (parking)
	at jdk.internal.misc.Unsafe.park(java.base@21.0.2/Native Method)
	- parking to wait for  <0x000000069ec2cb30> (a java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject)
	at java.util.concurrent.LinkedBlockingQueue.take(java.base@21.0.2/LinkedBlockingQueue.java:435)
	at Agent.loop(Agent.java:50)
	at java.lang.Thread.runWith(java.base@21.0.2/Thread.java:1596)

"ForkJoinPool-1-worker-1" #30 [27950] daemon prio=5 os_prio=0 cpu=4.1ms elapsed=0.93s tid=0x00007f6c081376d0 nid=27950  [0x00007f]
   Carrying virtual thread #29

"Common" #31 daemon prio=5 os_prio=0 cpu=4.1ms elapsed=0.93s tid=0x00007f6c081376d0 nid=27950 runnable  [0x00007f]
   java.lang.Thread.State: RUNNABLE

JNI global refs: 14, weak refs: 0

`, "java 1 3 idle"},
		{"Java, a forged header in a name", `Full thread dump OpenJDK 64-Bit Server VM (17.0.15+6 mixed mode):

_java_thread_list=0x00007fab7c002610, length=1, elements={
0x00007f6c081376c0
}

"evil
"fake" #9 prio=5 os_prio=0 cpu=1.46ms elapsed=1.88s tid=0x00000bad nid=0x1 runnable  [0x0]
rest" #20 prio=5 os_prio=0 cpu=1.46ms elapsed=1.88s tid=0x00007f6c081376c0 nid=0x6d2d runnable  [0x00007f6be4c9c000]
   java.lang.Thread.State: WAITING (parking)
	at Agent.loop(Agent.java:50)

"VM Thread" os_prio=0 cpu=1ms elapsed=1s tid=0x00007f6c080f3a50 nid=0x6d19 runnable 

JNI global refs: 14, weak refs: 0
`, "java 1 1 unclear"},
		{"Java, exceptions", "java.lang.IllegalStateException: bad reply\n\tat Boom.parse(Boom.java:2)\nCaused by: java.lang.NumberFormatException: x\n\t... 2 more\n", "java-traceback 0 0 not_a_dump"},
		{"JavaScript, an error", "TypeError: bad reply\n    at parse (/srv/app/a.js:1:25)\n    at node:internal/timers:581:17\n", "node-traceback 0 0 not_a_dump"},
		{"Node, a watchdog", "Node.js event loop wedged; main thread (most recent call first):\n    at scanTokens (file:///srv/app/agent.js:9:3)\n    at async step (file:///srv/app/agent.js:16:23)\n", "node-stack 1 1 busy agent.js:9 scanTokens"},
		{"Node, the event of the protocol", `{"method":"Debugger.paused","params":{"callFrames":[{"functionName":"scanTokens","location":{"scriptId":"1","lineNumber":8,"columnNumber":2},"url":"file:///srv/app/agent.js"}],"reason":"other"}}`, "node-cdp-json 1 1 busy agent.js:9 scanTokens"},
		{"Node, a report of an exception", `{"header":{"reportVersion":3,"event":"Exception","trigger":"Exception","threadId":0},"javascriptStack":{"message":"Error: x","stack":["at parse (/srv/app/a.js:1:25)","at listOnTimeout (node:internal/timers:581:17)"]},"nativeStack":[],"environmentVariables":{"TOKEN":"x"}}`, "node-report 1 1 unclear a.js:1 parse"},
		{"Node, a report that breaks off", `{"header":{"reportVersion":3,"event":"SIGUSR2","trigger":"Signal","threadId":0},"javascriptStack":{"message":"","stack":["at parse (/srv/app/a.js:1:25)"]},"nativeStack":[{"pc":"0x1","symbol":"uv_run [node]"},{"pc`, "node-report 1 1 unclear a.js:1 parse bytes"},
		{"Ruby 3.4", "#<Thread:0x00007f6e8c80bc70 run>\n    /srv/app/agent.rb:21:in 'Thread#backtrace'\n    /srv/app/agent.rb:21:in 'block in <main>'\n    /srv/app/agent.rb:6:in 'Thread::Queue#pop'\n    /srv/app/agent.rb:6:in 'Agent#wait_reply'\n    /srv/app/agent.rb:29:in '<main>'\n", "ruby-threads 1 1 unclear agent.rb:6 wait_reply"},
		{"Ruby, an exception", "/srv/app/a.rb:5:in `parse': bad reply (RuntimeError)\n\tfrom /srv/app/a.rb:9:in `<main>'\n", "ruby-traceback 0 0 not_a_dump"},
		{"Ruby, a thread that died", "#<Thread:0x00007f6e8c80bc70 a.rb:4 run> terminated with exception (report_on_exception is true):\na.rb:2:in `parse': bad reply (ArgumentError)\n\tfrom a.rb:4:in `block in <main>'\n", "ruby-traceback 0 0 not_a_dump"},
		{"gdb, one thread without libthread_db", "Thread 1 (process 16106):\n#0  0x00007f55 in poll () from /lib/x86_64-linux-gnu/libc.so.6\n#1  0x0000 in worker (arg=0x3 \"a) at b\") at /srv/app/agent.c:25\n", "gdb 1 1 unclear agent.c:25 worker"},
		{"eu-stack, C++", "PID 7 - process\nTID 7:\n#0  0x00007f5192c41cae epoll_pwait\n#1  0x0 app::Server<int>::poll(std::function<void (int)> const&)\n#2  0x1 main\n#3  0x2 _start\n", "eu-stack 1 1 unclear poll"},
		{"/proc, no stack, a name with spaces", "== tid 7 comm=my agent (1) wchan=0 syscall=running\nState:\tR (running)\nvoluntary_ctxt_switches:\t8\nnonvoluntary_ctxt_switches:\t3\n12 3\n", "proc 1 1 busy"},
		{"nothing", "INFO all is well\n\n", "none 0 0 not_a_dump"},
		{"empty", "", "none 0 0 not_a_dump"},
		{"bytes", "\x00\x01\x02\xff\xfe{\"a\"", "none 0 0 not_a_dump"},
		{"a broken gzip", "\x1f\x8b\x08\x00garbage", "none 0 0 not_a_dump bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := inWords(NewSummary(Parse(c.text), Options{})); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func inWords(s Summary) string {
	words := fmt.Sprintf("%s %d %d %s", s.Format, s.Dumps, s.Threads, s.Verdict)
	if len(s.Culprit) > 0 {
		c := s.Culprit[0]
		line := 0
		if c.Line != nil {
			line = *c.Line
		}
		words += " " + place(word(c.File), line, c.Function)
	}
	if s.Truncated != nil {
		words += " " + *s.Truncated
	}
	return words
}

func TestLoopThreadByOption(t *testing.T) {
	for _, c := range []struct{ file, name, want string }{
		{"go126-sigquit-waits.txt", "main.ticker", "go 1 14 idle"},
		{"go126-sigquit-waits.txt", "7", "go 1 14 idle"},
		{"go126-sigquit-209.txt", "(*Dispatcher).report", "go 1 209 wedged main.go:38 (*Dispatcher).report"},
		{"java17-spin-pair-1.txt", "main", "java 1 28 wedged Agent.java:42 main"},
		{"py311-threads-lock-deadlock.txt", "0x00007f5c895e66c0", "py-faulthandler 1 3 wedged batch.py:14 right"},
		{"c-eu-stack-v-s.txt", "flusher", "eu-stack 1 6 wedged agent.c:19 flusher"},
		{"go126-sigquit-209.txt", "no such thread", "go 1 209 wedged main.go:53 (*Dispatcher).loop"},
	} {
		if got := inWords(NewSummary(Parse(read(t, c.file)), Options{LoopThread: c.name})); got != c.want {
			t.Errorf("%s, loop thread %q:\n got  %s\nwant %s", c.file, c.name, got, c.want)
		}
	}
}

func TestDemangle(t *testing.T) {
	for symbol, want := range map[string]string{
		"_ZN5agent8dispatch17h9f4bc534838a13c1E":                           "agent::dispatch",
		"_ZN5agent4main28_$u7b$$u7b$closure$u7d$$u7d$17h4ba115d51cc86aa4E": "agent::main::{{closure}}",
		"_RNvNtNtCsjrHSEGnQ3l9_3std6thread9functions4park":                 "std::thread::functions::park",
		"_RNvMs_NtNtCsjrHSEGnQ3l9_3std6thread6threadNtB4_6Thread4park":     "std::thread::thread::Thread::park",
		"_ZN4node17SyncProcessRunner5SpawnERKN2v820FunctionCallbackInfoE":  "node::SyncProcessRunner::Spawn",
		"_ZN":           "_ZN",
		"_R":            "_R",
		"_ZN99agentE":   "_ZN99agentE",
		"plain_c":       "plain_c",
		"_ZN0E":         "_ZN0E",
		"_RNv999999999": "_RNv999999999",
	} {
		if got := demangle(symbol); got != want {
			t.Errorf("%s became %s, want %s", symbol, got, want)
		}
	}
}

func TestShortNames(t *testing.T) {
	for _, c := range []struct {
		f          family
		name, want string
	}{
		{goFamily, "main.(*Dispatcher).loop", "(*Dispatcher).loop"},
		{goFamily, "main.main.func1", "func1"},
		{goFamily, "example.com/a.b/pkg.Run", "Run"},
		{goFamily, "example.com/pkg.Map[go.shape.int].Get", "Map[go.shape.int].Get"},
		{goFamily, "panic", "panic"},
		{javaFamily, "com.acme.Agent$Inner.dispatch", "dispatch"},
		{scriptFamily, "async Agent.step", "step"},
		{scriptFamily, "new Agent", "Agent"},
		{rubyFamily, "Agent#wait_reply", "wait_reply"},
		{rubyFamily, "block in Agent#run_step", "block in run_step"},
		{nativeFamily, "node::SyncProcessRunner::Spawn", "Spawn"},
		{nativeFamily, "a::(anonymous namespace)::f<b::c>", "f<b::c>"},
		{pythonFamily, "call_tool", "call_tool"},
	} {
		if got := c.f.short(c.name); got != c.want {
			t.Errorf("%s became %s, want %s", c.name, got, c.want)
		}
	}
}
