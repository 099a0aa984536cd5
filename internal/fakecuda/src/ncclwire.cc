// Where the ranks of an emulated NCCL communicator meet: shared memory, barriers, and waits that an abort ends.
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nccl.h"

namespace fake {

NcclComm::~NcclComm() {
    if (segment) munmap(segment, sizeof(NcclSegment));
}

// nccl_map opens the segment, or makes it. Its pages are made when they are touched.
bool nccl_map(NcclComm* c) {
    const int fd = open(c->path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return false;
    void* p = ftruncate(fd, sizeof(NcclSegment)) == 0 ? mmap(nullptr, sizeof(NcclSegment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (p == MAP_FAILED) return false;
    c->segment = (NcclSegment*)p;
    return true;
}

// ended reports whether a process has ended, also one whose parent was not told yet.
static bool ended(int pid) {
    if (pid == 0 || pid == getpid()) return false;
    if (kill(pid, 0) != 0 && errno == ESRCH) return true;
    FILE* f = fopen(format("/proc/%d/stat", pid).c_str(), "r");
    if (!f) return true;
    char state = 0;
    const bool read = fscanf(f, "%*d (%*[^)]) %c", &state) == 1;
    fclose(f);
    return read && state == 'Z';
}

// look_around sets the asynchronous error when another rank is gone, as NCCL does where it notices: connections over a network end. Between
// GPUs of one machine it does not.
static void look_around(NcclComm* c) {
    {
        Lock lock(g.mu);
        if (!g.knobs.nccl_remote) return;
    }
    for (int r = 0; r < c->size; r++) {
        auto& other = c->segment->ranks[r];
        if (r != c->rank && (other.gone || ended(other.pid))) c->state = ncclRemoteError;
    }
}

// nccl_wait waits until something is so, and reports whether it is: not after an abort.
bool nccl_wait(NcclComm* c, const std::function<bool()>& until) {
    for (uint64_t tries = 0; !until(); tries++) {
        if (c->aborted) return false;
        if (tries < 50)
            sched_yield();
        else
            usleep(tries < 500 ? 20 : 200);
        if (tries % 100 == 99) look_around(c);
    }
    return !c->aborted;
}

// nccl_barrier waits for all ranks.
bool nccl_barrier(NcclComm* c) {
    const uint64_t phase = ++c->segment->ranks[c->rank].phase;
    return nccl_wait(c, [&] {
        for (int r = 0; r < c->size; r++)
            if (c->segment->ranks[r].phase < phase) return false;
        return true;
    });
}

// nccl_hang is what becomes of ranks that do different things: NCCL does not tell, and waits for ever. This tells.
void nccl_hang(NcclComm* c, const std::string& why) {
    {
        Lock lock(g.mu);
        note("NCCL hangs: " + why);
    }
    nccl_wait(c, [] { return false; });
}

}  // namespace fake
