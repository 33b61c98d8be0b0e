#!/bin/sh
# Run a command of this checkout on Debian's kernel, which has netem, where this machine's own has none:
#
#   tests/kernel_vm.sh .venv/bin/python -m pytest -q tests/chaos/machines/test_kernel_links.py
#
# The machine inside is this one: the same files, read only (what it writes goes with it), a kernel of its own, a Docker
# engine of its own with the image of the nodes, if it is built, and no network. Its output is the command's, its exit
# code too. Needs root, and: apt-get install qemu-system-x86 busybox-static kmod docker.io. Without KVM each second in
# there takes about ten of ours, but what runs there does not notice: its clock counts instructions. MEMORY (8G) and
# ACCEL (kvm or tcg) can be set in the environment.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
cache=$here/.cache/kernel
share=$cache/share

fetch() { # the kernel is unpacked, not installed
    mkdir -p "$cache/root"
    [ -z "$(ls "$cache/root/boot" 2>/dev/null)" ] || return 0
    package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\).*/\1/p' | head -n 1)
    (cd "$cache" && apt-get download -q "$package" && dpkg -x "$package"_*.deb root && rm "$package"_*.deb)
    depmod -b "$cache/root" "$(ls "$cache/root/lib/modules")"
}

first_files() { # what the kernel starts with: just enough to see this machine's files
    rm -rf "$cache/first" && mkdir -p "$cache/first/lower" "$cache/first/upper" "$cache/first/new"
    cp "$(command -v busybox)" "$cache/first/busybox"
    {
        printf '#!/busybox sh\nset -e\n'
        for module in virtio_pci 9pnet_virtio 9p overlay; do
            modprobe -d "$cache/root" -S "$1" --show-depends "$module"
        done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
            cp "$file" "$cache/first/"
            printf '/busybox insmod /%s\n' "${file##*/}"
        done
        cat <<END
/busybox mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro files /lower
/busybox mount -t tmpfs -o size=100% tmpfs /upper
/busybox mkdir /upper/files /upper/work
/busybox mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work overlay /new
exec /busybox switch_root /new /bin/sh $here/tests/kernel_vm.sh --inside
END
    } >"$cache/first/init"
    chmod +x "$cache/first/init"
    (cd "$cache/first" && find . | busybox cpio -o -H newc 2>/dev/null) >"$cache/first.img"
}

outside() {
    cd "$here"
    fetch
    version=$(ls "$cache/root/lib/modules")
    first_files "$version"
    rm -rf "$share" && mkdir -p "$share"
    printf 'cd %s\n' "$here" >"$share/command"
    printf "'%s' " "$@" >>"$share/command"
    node=$(.venv/bin/python -c 'from chaos.machines.docker.engine import image_name; print(image_name())')
    for image in stormproof-base:debian "$node"; do
        ! docker image inspect "$image" >/dev/null 2>&1 || printf '%s\n' "$image"
    done >"$share/images"
    # shellcheck disable=SC2046
    [ ! -s "$share/images" ] || docker save -o "$share/images.tar" $(cat "$share/images")
    # Not every /dev/kvm runs a kernel that is not made for it: those of these two modules do.
    { [ -e /sys/module/kvm_intel ] || [ -e /sys/module/kvm_amd ]; } && able=kvm || able=tcg
    [ "${ACCEL:-$able}" = kvm ] && how="kvm -cpu host -smp $(nproc)" ||
        how="tcg,thread=single,tb-size=1024 -icount shift=0 -cpu max,la57=off"
    # shellcheck disable=SC2086
    qemu-system-x86_64 -accel $how -m "${MEMORY:-8G}" -nodefaults -no-user-config -display none -no-reboot \
        -serial stdio -kernel "$cache/root/boot/vmlinuz-$version" -initrd "$cache/first.img" \
        -append "console=ttyS0 quiet panic=-1" -object rng-random,id=random,filename=/dev/urandom \
        -device virtio-rng-pci,rng=random \
        -fsdev local,id=files,path=/,security_model=passthrough,readonly=on,multidevs=remap \
        -device virtio-9p-pci,fsdev=files,mount_tag=files \
        -fsdev "local,id=share,path=$share,security_model=passthrough" \
        -device virtio-9p-pci,fsdev=share,mount_tag=share </dev/null
    exit "$(cat "$share/code" 2>/dev/null || echo 3)"
}

inside() {
    export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
    mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t devtmpfs devices /dev
    mkdir -p /dev/pts /dev/shm /lib/modules /mnt/share /var/lib/docker
    for folder in /dev/shm /run /tmp /var/lib/docker; do
        [ "${here#"$folder"/}" != "$here" ] || mount -t tmpfs tmpfs "$folder"
    done
    mount -t devpts devpts /dev/pts && mount -t cgroup2 cgroup2 /sys/fs/cgroup
    chmod 1777 /tmp /dev/shm
    [ -e "/lib/modules/$(uname -r)" ] || ln -s "$cache/root/lib/modules/$(uname -r)" /lib/modules/
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000 share /mnt/share
    ip link set lo up
    dockerd >/var/log/dockerd.log 2>&1 &
    for _ in $(seq 60); do
        docker version >/dev/null 2>&1 && break
        sleep 1
    done
    [ ! -e /mnt/share/images.tar ] || docker load -q -i /mnt/share/images.tar
    code=0
    sh /mnt/share/command || code=$?
    echo "$code" >/mnt/share/code
    sync
    echo o >/proc/sysrq-trigger
    sleep 60
}

case ${1:-} in
    --inside) inside >/dev/console 2>&1 ;;
    "") sed -n '2,10s/^# \{0,1\}//p' "$0" ;;
    *) outside "$@" ;;
esac
