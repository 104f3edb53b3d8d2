package benchmark

import (
	"testing"
	"testing/fstest"
)

// TestHeldBack reads what a Pi's firmware says of its voltage and heat, by both of the ways that
// kernels have.
func TestHeldBack(t *testing.T) {
	const four, five = "sys/devices/platform/soc/soc:firmware/get_throttled",
		"sys/devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled"
	volt := func(name, alarm string) fstest.MapFS {
		return fstest.MapFS{"sys/class/hwmon/hwmon2/name": {Data: []byte(name)},
			"sys/class/hwmon/hwmon2/in0_lcrit_alarm": {Data: []byte(alarm)}}
	}
	for _, tt := range []struct {
		name string
		fs   fstest.MapFS
		want string
	}{
		{"no Pi", fstest.MapFS{}, ""},
		{"nothing", fstest.MapFS{five: {Data: []byte("0\n")}}, ""},
		{"now and before", fstest.MapFS{five: {Data: []byte("50005\n")}}, "under-voltage now, throttling now"},
		{"before", fstest.MapFS{four: {Data: []byte("0x50000\n")}},
			"under-voltage since it was switched on, throttling since it was switched on"},
		{"hot", fstest.MapFS{five: {Data: []byte("80008")}}, "the soft temperature limit now"},
		{"rubbish", fstest.MapFS{five: {Data: []byte("?")}}, ""},
		{"voltage", volt("rpi_volt\n", "1\n"), "under-voltage"},
		{"voltage that is well", volt("rpi_volt\n", "0\n"), ""},
		{"another sensor", volt("nct6775\n", "1\n"), ""},
	} {
		if got := heldBack(tt.fs); got != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}
