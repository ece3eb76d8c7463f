// Indexing of arrays of any rank, in row-major order.

#pragma once

// Extent that is only known at launch, such as the number of replicas. Only the first two extents of an array may be.
constexpr long long wd_varies = -1;

// Extents of an array at compile time: wd_extents<wd_varies, 5, 3> for an array [num_envs, 5, 3].
template <long long... sizes>
struct wd_extents {
    static constexpr int rank = sizeof...(sizes);

    WD_MEMBER static constexpr long long size(int axis) {
        const long long all[] = {sizes...};
        return all[axis];
    }

    // Return the extent of an axis.
    template <int axis>
    WD_MEMBER static constexpr long long extent() {
        static_assert(0 <= axis && axis < rank, "the array has no such axis");
        static_assert(size(axis) != wd_varies, "the number of replicas is a parameter: int num_envs");
        return size(axis);
    }

    // Return the flat index of an element, given one index per axis. With fewer indices, it is that of the subarray's
    // first element: index(env, agent) is where the elements of an agent begin.
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

// Array with its extents, as passed to the functions of this library. a(i, j, k) is an element.
template <class T, class Extents>
struct wd_array {
    T *data;
    int varying[2];

    template <class... Indices>
    WD_MEMBER T &operator()(Indices... indices) const {
        static_assert(sizeof...(Indices) == Extents::rank, "an element needs one index for each axis of the array");
        return data[place_from<0>(0, indices...)];
    }

    // Return the extent of an axis.
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

// Flat index of an element of an array parameter, for authors: loc_x[wd_index(loc_x, env, agent)]. The array must be
// given by the name of the parameter, from which the fused step derives the type of its extents.
#define wd_index(array, ...) wd_extents_of_##array::index(__VA_ARGS__)

// Extent of an axis of an array parameter, counted from 0; not available for the axis of the replicas.
#define wd_extent(array, axis) wd_extents_of_##array::template extent<axis>()
