package stackdump

import "unsafe"

// A text of many tiny threads or frames would take far more memory than itself.
// Real dumps do not come near these bounds.
const (
	budgetBase  = 2 << 20 // bytes, however short the text
	budgetShare = 3       // half bytes for each byte of the text
	arenaStep   = 1024    // frames
	mostFrames  = 4096    // of a thread
	mostLooks   = 8       // see expect
	mostStacks  = 20_000  // that are shared between threads
	mendingBase = 1 << 20 // bytes that mending looks at, beside those of the text

	frameCost  = int(unsafe.Sizeof(Frame{}))
	threadSize = int(unsafe.Sizeof(Thread{}))
	threadCost = 3 * threadSize // a growing slice holds its threads more than once
	dumpCost   = 3 * int(unsafe.Sizeof(Dump{}))
)

// budget is the memory that may still be taken for threads and frames, in bytes.
type budget int

func newBudget(length int) budget { return budget(budgetBase + length*budgetShare/2) }

// spend takes n bytes, if they are there.
func (b *budget) spend(n int) bool {
	if int(*b) < n {
		return false
	}
	*b -= budget(n)
	return true
}
