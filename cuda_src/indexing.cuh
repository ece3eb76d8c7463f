// Arrays of any rank, in row-major order (the last index runs fastest).

#pragma once

// An extent that changes from run to run, such as the number of replicas: only the first two of an array may.
constexpr long long wd_varies = -1;

// The extents of an array, known to the compiler: wd_extents<wd_varies, 5, 3> for an array [num_envs, 5, 3].
template <long long... sizes>
struct wd_extents {
    static constexpr int rank = sizeof...(sizes);

    WD_MEMBER static constexpr long long size(int axis) {
        const long long all[] = {sizes...};
        return all[axis];
    }

    // How many elements the array has along an axis.
    template <int axis>
    WD_MEMBER static constexpr long long extent() {
        static_assert(0 <= axis && axis < rank, "the array has no such axis");
        static_assert(size(axis) != wd_varies, "the number of replicas is a parameter: int num_envs");
        return size(axis);
    }

    // The place of an element among all, for one index per axis; with fewer, that of the first element of the part
    // that they select: index(env, agent) is where the numbers of an agent begin.
    template <class... Indices>
    WD_MEMBER static constexpr long long index(Indices... indices) {
        static_assert(sizeof...(Indices) <= rank, "more indices than the array has axes");
        return place_from<0>(0, indices...);
    }

  private:
    template <int axis>
    WD_MEMBER static constexpr long long place_from(long long place) {
        if constexpr (axis < rank) return place_from<axis + 1>(place * extent<axis>());
        else return place;
    }

    template <int axis, class Index, class... Indices>
    WD_MEMBER static constexpr long long place_from(long long place, Index index, Indices... indices) {
        if constexpr (axis > 0) place *= extent<axis>();
        return place_from<axis + 1>(place + static_cast<long long>(index), indices...);
    }
};

// An array and its extents: what the functions of this library are given. a(i, j, k) is an element.
template <class T, class Extents>
struct wd_array {
    T *data;
    int varying[2];

    template <class... Indices>
    WD_MEMBER T &operator()(Indices... indices) const {
        static_assert(sizeof...(Indices) == Extents::rank, "an element has one index for each axis of the array");
        return data[place_from<0>(0, indices...)];
    }

    // How many elements the array has along an axis.
    WD_MEMBER constexpr long long extent(int axis) const {
        return Extents::size(axis) == wd_varies ? varying[axis] : Extents::size(axis);
    }

    WD_MEMBER operator T *() const { return data; }

  private:
    template <int axis>
    WD_MEMBER long long place_from(long long place) const {
        return place;
    }

    template <int axis, class Index, class... Indices>
    WD_MEMBER long long place_from(long long place, Index index, Indices... indices) const {
        return place_from<axis + 1>((axis > 0 ? place * extent(axis) : 0) + static_cast<long long>(index), indices...);
    }
};

// The place of an element of an array parameter, for authors: loc_x[wd_index(loc_x, env, agent)]. The array goes by its
// parameter's name, because that is how the fused step knows it.
#define wd_index(array, ...) wd_extents_of_##array::index(__VA_ARGS__)

// How many elements an array parameter has along an axis, counted from 0; not along that of the replicas.
#define wd_extent(array, axis) wd_extents_of_##array::template extent<axis>()
