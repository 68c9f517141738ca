// Python for the runner, to be run before a case's own: lose_begin_marks(is_lost) has the begin marks of calls that count
// written where nobody looks, in pairs of which is_lost(request) says so. The token of the batch and the number of the call
// that is enqueued stand in words of the page that nobody uses.
#pragma once

constexpr int TOKEN = 256, COUNT = 257, MARKS = 8192 / 8;

static const char* const lost_begin = R"(
import ctypes, gc
def lose_begin_marks(is_lost):
    for thing in gc.get_objects():
        if type(thing).__name__ == 'DeviceTarget':
            kind = type(thing)
            honest = kind.do_enqueue
            def do_enqueue(self, request, descriptors):
                lost = is_lost(self, request)
                self.words[256], self.words[257] = request['token'], request['first']
                clear, kept = self.functions['ky_clear'], []
                launch = self.driver.launch
                def patched(function, *rest):
                    if function == clear and lost:
                        grid, block, stream, parameters = rest
                        nowhere = ctypes.c_void_p(self.page_device + 8 * 260)
                        copied = (ctypes.c_void_p * 12)(*[parameters[i] for i in range(12)])
                        copied[10] = ctypes.addressof(nowhere)
                        kept.append((nowhere, copied))
                        rest = (grid, block, stream, ctypes.cast(copied, ctypes.POINTER(ctypes.c_void_p)))
                    return launch(function, *rest)
                self.driver.launch = patched
                try:
                    return honest(self, request, descriptors)
                finally:
                    self.driver.launch = launch
                    self.words[257] = 1 << 20
            kind.do_enqueue = do_enqueue
            break
)";
