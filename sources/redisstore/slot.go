package redisstore

import "strings"

// slotCount is the number of hash slots of a Redis Cluster.
const slotCount = 16384

// slotOf is the hash slot of a key: CRC16 (XMODEM) of its hash tag, if it has
// one that is not empty, else of the whole key.
func slotOf(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	return crc16(key) % slotCount
}

func crc16(text string) uint16 {
	var crc uint16
	for i := range len(text) {
		crc = crc<<8 ^ crcSteps[byte(crc>>8)^text[i]]
	}
	return crc
}

// crcSteps holds what one byte does to the checksum.
var crcSteps = func() (steps [256]uint16) {
	for b := range steps {
		crc := uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		steps[b] = crc
	}
	return steps
}()
